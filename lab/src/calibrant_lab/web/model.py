"""Load a network with its calibrator, with support for CheXNet's weights and findings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant.calibrators import Calibrator, load_calibrator
from calibrant.calibrators import build as build_calibrator
from calibrant.calibrators.inputs import names_of_columns
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions, load_predictions
from calibrant.predictions.to_event import to_repair
from calibrant.repair.applying import event_of
from calibrant.web.limits import Limits, ModelSettings, Refusal
from calibrant.web.uploads import Upload
from calibrant_lab.data import Geometry, Preparation
from calibrant_lab.data.lazy import AS_IT_IS
from calibrant_lab.data.table import to_unit
from calibrant_lab.data.xray_sets import FINDINGS
from calibrant_lab.models import build_trained
from calibrant_lab.models.checkpoints import read_weights
from calibrant_lab.models.densenet import torchvision_name
from calibrant_lab.reports.run_panel import png
from calibrant_lab.training.data import preparation, read_data
from calibrant_lab.training.run import Run, load_run
from calibrant_lab.web.classifier import LIKELIEST, Classifier, Seen, refits

NOTICE = "Not for clinical use: nobody has tested whether this network is right about your patients."

_CHEXNET = """
Atelectasis Cardiomegaly Effusion Infiltration Mass Nodule Pneumonia Pneumothorax Consolidation Edema
Emphysema Fibrosis Pleural_Thickening Hernia
"""
_TORCHXRAYVISION = """
Atelectasis Consolidation Infiltration Pneumothorax Edema Emphysema Fibrosis Effusion Pneumonia
Pleural_Thickening Cardiomegaly Nodule Mass Hernia
"""
_OF_OTHER_SETS = ("Lung Lesion", "Fracture", "Lung Opacity", "Enlarged Cardiomediastinum")
ORDERS: dict[str, tuple[str, ...]] = {
    # github.com/arnoweng/CheXNet, model.py; the NIH's own list, and those of most repetitions of CheXNet
    "chexnet": tuple(_CHEXNET.split()),
    # torchxrayvision.datasets.default_pathologies: fourteen of NIH's findings and four of other sets
    "torchxrayvision": (*_TORCHXRAYVISION.split(), *_OF_OTHER_SETS),
    "chestxray14": FINDINGS,
}


def plain(name: str) -> str:
    return " ".join(name.replace("_", " ").casefold().split())


_CHEST = {*map(plain, FINDINGS), "covid-19", "covid"}


def convert_chexnet(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> int:
    """Convert a checkpoint to ``.safetensors`` without executing it; return the number of outputs."""
    from safetensors.torch import save

    found: dict[str, Tensor] = {torchvision_name(name): value for name, value in read_weights(path).items()}
    last = found.get("classifier.weight")
    if last is None or last.ndim != 2 or "features.norm5.weight" not in found:
        raise InputError(f"{os.fspath(path)} must hold the weights of a DenseNet with a linear classifier.")
    if Path(out).suffix != ".safetensors":
        raise InputError(f"`out` must end in .safetensors; got {os.fspath(out)!r}.")
    with atomic_write(out) as temporary:
        temporary.write_bytes(save({name: value.contiguous().clone() for name, value in found.items()}))
    return len(last)


Tell = Callable[[str, float], None]


def load_classifier(settings: ModelSettings, tell: Tell = lambda *_: None) -> Classifier:
    """Load network and calibrator, and fit the intervals."""
    run = load_run(settings.model) if Path(settings.model).is_dir() else None
    rows = _calibration_rows(settings, None if run is None else run.predictions)
    calibrator = None if settings.calibrator is None else load_calibrator(settings.calibrator)
    kinds = {rows and rows.kind, calibrator and calibrator.kind_}
    multilabel = settings.multilabel or "multilabel" in kinds
    names, columns = _names(settings, rows, calibrator)
    if run is None:
        seen = _seen(settings, len(settings.class_names or names), multilabel=multilabel)
    else:
        seen = _seen_by(run, settings, multilabel=multilabel)
    form, spread = rows, None
    if rows is not None and not multilabel:
        form = to_repair(rows, 1 if calibrator is None else event_of(calibrator, rows))
    if form is not None:
        method = settings.method or ("platt" if multilabel else "temperature")
        calibrator = calibrator or fit_quietly(build_calibrator(method), Labelled.of(form))
        if settings.resamples:
            spread = refits(calibrator, form, number=settings.resamples, level=settings.level, tell=tell)
    found = Classifier(
        name=settings.model if run is None else run.folder.path.resolve().name,
        seen=seen,
        columns=columns,
        class_names=names,
        multilabel=multilabel,
        calibrator=calibrator,
        refits=spread,
        prevalence=None if rows is None else _prevalence(rows, len(names)),
        num_calibration=None if rows is None else rows.num_samples,
        notice=settings.notice or (NOTICE if _CHEST & {*map(plain, names)} else None),
    )
    grey = Upload("grey.png", png(np.full((256, 256), 0.5)))
    try:  # to fail early, and spare the first visitor a wait
        found.with_map(grey, LIKELIEST, Limits(), lambda *_: None)
    except Refusal as refusal:
        raise InputError(refusal.sentence) from refusal
    return found


def _calibration_rows(settings: ModelSettings, of_run: Predictions | None) -> Predictions | None:
    if settings.predictions is not None:
        given = load_predictions(settings.predictions)
    elif of_run is not None:
        given = of_run.with_clusters(of_run.clusters or of_run.groups)  # groups of a run are patients
    else:
        return None
    if given.labels is None:
        raise InputError("--predictions must have labels, which the calibrator is fitted on.")
    return given.calibration if given.has_calibration else given


def _names(
    settings: ModelSettings, rows: Predictions | None, calibrator: Calibrator | None
) -> tuple[tuple[str, ...], Tensor | None]:
    own = settings.class_names
    of_rows = None if rows is None else rows.class_names
    of_calibrator = None if calibrator is None else names_of_columns(calibrator)
    if of_rows and of_calibrator and list(map(plain, of_rows)) != list(map(plain, of_calibrator)):
        raise InputError("--predictions and --calibrator must name the same classes in the same order.")
    reference = of_rows or of_calibrator
    if reference is None:
        known = rows.num_classes if rows is not None else None
        count = known or (calibrator.num_classes_ if calibrator is not None else None)
        if own is None and not count:
            raise InputError("--class-names must say what the network's outputs are, or how many there are.")
        names = own or tuple(f"class {number}" for number in range(count or 0))
        if count and len(names) != count:
            said = f"--class-names must name the {count} classes of the calibrator; got {len(names)}."
            raise InputError(said)
        return names, None
    names = tuple(str(each) for each in reference)
    if own is None:
        return names, None
    places = {plain(name): place for place, name in enumerate(own)}
    missing = [name for name in names if plain(name) not in places]
    if missing:
        raise InputError(
            f"--class-names must hold the calibrator's class {missing[0]!r}; got {', '.join(own)}."
        )
    return names, torch.tensor([places[plain(name)] for name in names])


def _prevalence(rows: Predictions, count: int) -> tuple[float, ...]:
    labels = torch.as_tensor(rows.labels)
    held = labels.double() if labels.ndim == 2 else torch.nn.functional.one_hot(labels.long(), count).double()
    weights = torch.ones(len(held)) if rows.weights is None else torch.as_tensor(rows.weights)
    return tuple(((weights.double()[:, None] * held).sum(0) / weights.double().sum()).tolist())


def _seen_by(run: Run, settings: ModelSettings, *, multilabel: bool) -> Seen:
    """Return a run's network, which sees images of the size and range of the training."""
    default = ModelSettings(model=settings.model)
    for name in ("weights", "size", "resize", "crop", "ten_crop", "channels", "mean", "std"):
        if getattr(settings, name) != getattr(default, name):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} is not for a run, which prepares images as its recipe says.")
    data = run.recipe.data
    dataset = read_data(data)
    inputs = dataset.train.inputs
    if len(dataset.input_shape) != 3 or (isinstance(inputs, Tensor) and not _in_unit(inputs)):
        raise InputError(
            f"{run.folder.path} was not trained on images with values in [0, 1], so it cannot be asked about "
            "images; serve it with a factory of your own (--model module:factory --weights FILE)."
        )
    channels, height, width = dataset.input_shape
    return Seen(
        network=run.model().eval(),
        geometry=AS_IT_IS,
        preparation=preparation(data, dataset),
        channels=channels,
        sides=(height * data.downsample, width * data.downsample),
        downsample=data.downsample,
        side=data.crop,
        ten=run.recipe.evaluation.views == "ten-crop",
        multilabel=multilabel,
    )


def _in_unit(inputs: Tensor) -> bool:
    unit = to_unit(inputs)
    return bool(((unit >= 0) & (unit <= 1)).all())


def _seen(settings: ModelSettings, outputs: int, *, multilabel: bool) -> Seen:
    """Return a network that is not a run, with its image preparation."""
    side, cut = settings.crop or settings.size or 224, settings.ten_crop
    if cut and not settings.crop:
        raise InputError("--ten-crop needs --crop, the side of the squares that are cut out.")
    shape = (settings.channels, side, side)
    network = build_trained(settings.model, settings.weights, input_shape=shape, num_classes=outputs)
    sizes = {"size": settings.size, "resize": settings.resize, "crop": 0 if cut else settings.crop}
    return Seen(
        network=network.eval(),
        geometry=Geometry(**sizes, channels=settings.channels),
        preparation=Preparation.given(settings.mean, settings.std, settings.channels),
        channels=settings.channels,
        side=settings.crop if cut else 0,
        ten=cut,
        multilabel=multilabel,
    )


def class_names_of(text: str) -> tuple[str, ...]:
    """Parse names between commas, a file with one per line, or a known list's name.

    Example:
        >>> class_names_of("cat, dog"), len(class_names_of("chexnet"))
        (('cat', 'dog'), 14)
    """
    if text.lower() in ORDERS:
        return ORDERS[text.lower()]
    path = Path(text)
    if "," not in text and path.is_file():
        try:
            given = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise InputError(f"{path} must hold a name in each line; it is not UTF-8.") from error
    else:
        given = text.split(",")
    names = tuple(each.strip() for each in given if each.strip())
    if len(set(names)) != len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise InputError(f"--class-names must differ; got {twice!r} twice.")
    if len(names) < 2:
        known = ", ".join(ORDERS)
        raise InputError(
            f"--class-names must be two names or more, a file of them, or one of {known}; got {text!r}."
        )
    return names
