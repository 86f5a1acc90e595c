"""Predictions of a network on a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant.predictions import Predictions
from calibrant_lab.data import Dataset, Part, Preparation, RawData, shrink
from calibrant_lab.data.lazy import in_turn
from calibrant_lab.data.table import Size, chosen_for_calibration, to_unit
from calibrant_lab.training.data import split_as, usable_device
from calibrant_lab.training.run import Run

Which = Literal["train", "calibration", "test", "all"]
Precision = Literal["float32", "bfloat16", "float16"]


def splits_of(run: Run, raw: RawData) -> Dataset | None:
    """Return a run's splits if these are its data, else None."""
    try:
        dataset = split_as(run.recipe.data, raw)
    except InputError:  # too few samples, or texts without vectors: other data
        return None
    return dataset if dataset.sha256() == run.data_sha256 else None


def as_split(dataset: Dataset) -> RawData:
    parts: dict[str, Any] = {name: part for name, part in dataset.parts.items() if name != "policy"}
    return RawData(name=dataset.name, class_names=dataset.class_names, **parts)


def predict(
    model: nn.Module,
    raw: RawData,
    *,
    split: Which | None = None,
    calibration: Size = 0.2,
    downsample: int = 1,
    seed: int = 0,
    preparation: Preparation | None = None,
    batch_size: int = 128,
    device: str = "auto",
    precision: Precision = "float32",
    progress: Callable[[str, float], None] | None = None,
) -> Predictions:
    """Predict a dataset with a network, and mark calibration and test samples.

    A calibration split of the data is also predicted, and marked. Without one, some of the requested samples
    are marked, since samples of the training are unsuitable.

    ``model`` maps a batch of inputs to logits ``(N, C)``, or to an object that has them as ``logits``; of a
    binary event also ``(N,)`` or ``(N, 1)``. It is set to evaluation mode. Without ``split`` the test part is
    predicted, or all where there is none; of it ``calibration`` (a share if below 1) are marked, by ``seed``.

    Example:
        >>> from calibrant_lab.data import load
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        >>> found = predict(network, load("digits"), calibration=500)
        >>> found.num_samples, found.calibration.num_samples, found.num_classes
        (1797, 500, 10)
    """
    tested, parts = _pieces(raw, split, calibration, seed)
    if downsample > 1:  # which is for decoded images
        parts = [shrink(replace(part, inputs=part.inputs[:]), downsample) for part in parts]
    place = usable_device(device)
    model = model.to(place).eval()
    prepared = (preparation or Preparation.none(int(parts[0].inputs.shape[1]))).to(place)
    total, done, found = sum(map(len, parts)), 0, list[Tensor]()
    cast = nullcontext() if precision == "float32" else torch.autocast(place.type, getattr(torch, precision))
    with torch.no_grad(), cast:
        for part in parts:
            batches = torch.arange(len(part)).split(batch_size)
            for rows, inputs in zip(batches, in_turn(part.inputs, batches), strict=True):
                given = model(prepared(to_unit(inputs.to(place))))
                found.append(_logits(given, len(rows), raw))
                done += len(rows)
                if progress is not None:
                    progress(f"predicting {raw.name}", done / total)
    patients = [part.groups for part in parts if part.groups is not None]
    logits, labels = torch.cat(found), torch.cat([part.labels for part in parts])
    return Predictions(
        logits=logits,
        labels=labels,
        split=None if bool(tested.all()) else tested,
        class_names=list(raw.class_names),
        clusters=torch.cat(patients) if len(patients) == len(parts) else None,
        kind="multilabel" if labels.ndim == 2 else None,
    )


def _pieces(
    raw: RawData, split: Which | None, calibration: Size, seed: int
) -> tuple[Int[Tensor, " N"], list[Part]]:
    """Return 0 for each calibration sample and 1 for each other, and the samples in pieces."""
    there = raw.parts
    split = split or ("test" if "test" in there else "all")
    if split != "all" and split not in there:
        raise InputError(
            f"--split must name a split of {raw.name} ({', '.join(there)}) or all; got {split!r}."
        )
    names = list(there) if split == "all" else [split]
    if split == "test" and "calibration" in there:
        names = ["calibration", "test"]
    parts = [there[name].rows(memory=0) for name in names]
    if len(names) == 1 and calibration:
        return torch.from_numpy(
            ~chosen_for_calibration(there[names[0]], calibration, seed=seed)
        ).long(), parts
    several = len(names) > 1
    marks = [
        torch.full((len(part),), int(not several or name != "calibration"))
        for name, part in zip(names, parts, strict=True)
    ]
    return torch.cat(marks), parts


def _logits(given: Any, num_samples: int, raw: RawData) -> Float[Tensor, "n C"] | Float[Tensor, " n"]:
    if isinstance(given, Mapping):
        given = given.get("logits")
    logits = getattr(given, "logits", given)
    classes = len(raw.class_names)
    if not isinstance(logits, Tensor) or logits.shape[:1] != (num_samples,):
        raise InputError(f"the network must map a batch to logits (N, C); it gives {_said(logits)}.")
    if classes == 2 and logits.shape[1:] in {(), (1,)}:
        return logits.reshape(-1).float().cpu()
    if logits.shape[1:] != (classes,):
        raise InputError(
            f"the network must give one logit for each of the {classes} classes of {raw.name}; it gives "
            f"{_said(logits)}. Choose or add columns in a factory of your own."
        )
    return logits.float().cpu()


def _said(logits: object) -> str:
    return f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
