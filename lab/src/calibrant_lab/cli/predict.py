"""``calibrant predict``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calibrant._math.errors import CalibrantWarning, InputError
from calibrant.cli.terminal import Force, check_output, progress, refuse_to_replace
from calibrant.cli.verbosity import Quiet
from calibrant.evaluation.read_options import told

if TYPE_CHECKING:
    from torch import nn

    from calibrant_lab.data import Dataset, Preparation, RawData
    from calibrant_lab.training import Run


def predict(
    model: Annotated[
        str, typer.Argument(help="Network: module:factory, a name such as lenet, or the directory of a run.")
    ],
    data: Annotated[str, typer.Argument(help="Named dataset, file, folder of images, or module:factory.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the predictions to this file.")],
    checkpoint: Path | None = told(
        "Weights to load: .safetensors, or a state dictionary.", None, None, "--weights"
    ),
    split: Literal["train", "calibration", "test", "all"] | None = told(
        "Split: train, calibration, test or all (default: test, if there is one).", None, "SPLIT"
    ),
    calibration: float = told(
        "Fraction or number of samples to mark for calibration, if there is no such split.",
        0.2,
        "NUMBER",
        "--calibration-size",
        min=0,
    ),
    seed: int = told("Random seed.", 0, "N", min=0),
    size: int = told("Resize images to N × N pixels (default: off).", 0, min=0),
    resize: int = told("Resize the shorter side to N pixels (default: off).", 0, min=0),
    crop: int = told("Crop the central N × N pixels (default: off).", 0, min=0),
    channels: int = told("1 for grey, 3 for colour (default: unchanged).", 0),
    mean: str | None = told("Mean per channel in [0, 1], e.g. 0.485,0.456,0.406.", None, "NUMBERS"),
    std: str | None = told("Standard deviation per channel.", None, "NUMBERS"),
    batch_size: int = told("Batch size.", 128, min=1),
    device: str = told("auto, cpu, cuda, cuda:1 or mps.", "auto", "DEVICE"),
    precision: Literal["float32", "bfloat16", "float16"] = told(
        "Precision: float32, bfloat16 or float16.", "float32", "TYPE"
    ),
    no_network: bool = told("Don't download data.", False, None, "--offline"),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Run a network on a dataset and save its predictions.

    Examples:
        calibrant predict runs/digits mnist -o predictions.npz
        calibrant predict my_network:build images/ --weights net.safetensors --size 224 -o predictions.npz
    """
    check_output(out, option="--out")
    refuse_to_replace(out, option="--out", force=force, may=lambda _: False, what="from before")
    from calibrant_lab.data import Geometry, load, offline
    from calibrant_lab.training.data import geometry_of
    from calibrant_lab.training.prediction import as_split, predict, splits_of
    from calibrant_lab.training.run import load_run

    geometry = Geometry(size=size, resize=resize, crop=crop, channels=channels)
    run, own = load_run(model) if Path(model).is_dir() else None, None
    with progress(f"reading {data}", quiet=quiet) as tell, offline(no_network):
        if run is not None:
            given = {"--size": size, "--resize": resize, "--crop": crop, "--channels": channels,
                     "--mean": mean, "--std": std, "--weights": checkpoint}  # fmt: skip
            if said := [option for option, value in given.items() if value]:
                raise InputError(f"{said[0]} is not for a run, which prepares samples as its recipe says.")
            geometry = geometry_of(run.recipe.data)
        raw = load(data, geometry=geometry)
        if run is not None and (own := splits_of(run, raw)) is not None:
            raw = as_split(own)
        found = predict(
            _network(model, run, raw, checkpoint),
            raw,
            split=split,
            calibration=calibration if calibration < 1 else int(calibration),
            downsample=1 if run is None or own is not None else run.recipe.data.downsample,
            seed=seed,
            preparation=_preparation(run, own, mean, std),
            batch_size=batch_size,
            device=device,
            precision=precision,
            progress=tell,
        )
        found.save(out)
    _warn_of_seen(raw, split, trained_on=own is not None)
    if not quiet:
        marked = "" if found.split is None else f", {found.calibration.num_samples} of them for calibration"
        typer.echo(f"{raw.name}: {found.num_samples} samples{marked}; {len(raw.class_names)} classes")
        typer.echo(f"Predictions: {out}")
        typer.echo(f"Next: calibrant evaluate {out}")


def _warn_of_seen(raw: RawData, split: str | None, *, trained_on: bool) -> None:
    text = ""
    if trained_on and split in {"train", "all"}:
        text = (
            f"the network was trained on {len(raw.train.labels)} of these samples, and looks better on them "
            "than on new ones. Leave --split out for its own calibration and test samples."
        )
    elif not trained_on and split is None and "test" not in raw.parts:
        text = (
            f"{raw.name} has no test split, so all its samples are predicted. If the network was trained on "
            "some of them, it looks better than it is; if on none, name --split all."
        )
    if text:
        warnings.warn(text, CalibrantWarning, stacklevel=1)


def _network(text: str, run: Run | None, raw: RawData, checkpoint: Path | None) -> nn.Module:
    import torch

    from calibrant_lab.models import build_trained
    from calibrant_lab.training.samples import AsJudged

    if run is not None:
        return AsJudged(run.model(), run.recipe, multilabel=raw.train.labels.ndim == 2)
    shape = tuple(raw.train.rows(torch.arange(1)).inputs.shape[1:])
    return build_trained(text, checkpoint, input_shape=shape, num_classes=len(raw.class_names))


def _preparation(
    run: Run | None, own: Dataset | None, mean: str | None, std: str | None
) -> Preparation | None:
    from calibrant_lab.data import Preparation
    from calibrant_lab.training.data import preparation, read_data

    if run is not None:
        return preparation(run.recipe.data, own or read_data(run.recipe.data))
    numbers: list[list[float] | None] = []
    for option, text in (("--mean", mean), ("--std", std)):
        try:
            numbers.append(None if text is None else [float(each) for each in text.split(",")])
        except ValueError:
            raise InputError(f"{option} must be numbers separated by commas; got {text!r}.") from None
    means, deviations = numbers
    return Preparation.given(means, deviations, len(means or ())) if means or deviations else None
