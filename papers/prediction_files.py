"""Prediction files below a folder, for several studies."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._math.errors import InputError
from calibrant.predictions import Predictions, load_predictions

ENDINGS = (".npz", ".csv", ".parquet", ".safetensors", ".pt")


def data_folder() -> Path:
    """Return the folder in CALIBRANT_DATA."""
    folder = os.environ.get("CALIBRANT_DATA")
    if not folder:
        raise InputError("CALIBRANT_DATA must name the folder of the prediction files.")
    return Path(folder)


def prediction_files(
    folder: Path, left_out: dict[str, str] | None = None
) -> Iterator[tuple[str, Predictions]]:
    """Yield every prediction file below a folder with its relative name; note refusals."""
    for path in sorted(path for path in folder.rglob("*") if path.suffix in ENDINGS):
        name = path.relative_to(folder).as_posix()
        try:
            predictions = read_file(path)
        except InputError as error:
            if left_out is not None and "found no predictions" not in str(error):
                left_out[name] = str(error).removeprefix(f"{path}: ")
            continue
        if predictions is not None:
            yield name, predictions


def read_file(path: Path) -> Predictions | None:
    """Read a file; take the largest of five probabilities; return None for an archive of images."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            if "top5_probs" in archive.files:
                return _largest_of_five(path, archive["top5_probs"], archive["top5_classes"])
            if not any(name.startswith(("logits", "probs", "confidence")) for name in archive.files):
                return None
    return load_predictions(path)


def _largest_of_five(path: Path, probs: Any, classes: Any) -> Predictions:
    """Return the confidence in the first of five classes, with labels from a file by dataset name."""
    with np.load(path.with_name("labels.npz"), allow_pickle=False) as archive:
        key = path.stem.rpartition("_")[2]
        if key not in archive.files:
            raise InputError(f"{path}: labels.npz holds no `{key}`.")
        correct = classes[:, 0] == archive[key]
    return Predictions(confidence=probs[:, 0], correct=correct)
