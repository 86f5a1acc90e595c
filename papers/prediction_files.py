"""Prediction files below a folder, for several studies."""

import os
from collections.abc import Iterator
from pathlib import Path

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
                with np.load(path.with_name("labels.npz"), allow_pickle=False) as labels:
                    key = path.stem.rpartition("_")[2]  # the data set
                    if key not in labels.files:
                        raise InputError(f"{path}: labels.npz holds no `{key}`.")
                    correct = archive["top5_classes"][:, 0] == labels[key]
                return Predictions(confidence=archive["top5_probs"][:, 0], correct=correct)
            if not any(name.startswith(("logits", "probs", "confidence")) for name in archive.files):
                return None
    return load_predictions(path)
