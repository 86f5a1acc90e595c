"""Files of any size: those that are large are left where they are and read in pieces."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant._math.files import said_of
from calibrant.predictions import chunks_parquet, npy_pairs
from calibrant.predictions.checks import Kind
from calibrant.predictions.files import load_predictions
from calibrant.predictions.table import Predictions, Source

STREAM_ABOVE = 1 << 29  # bytes of scores


def open_predictions(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    stream: bool | None = None,
    kind: Kind | None = None,
) -> Predictions:
    """Read predictions, or leave their scores in the file where they are large.

    Read in pieces are multiclass scores in ``.npy`` (``logits.npy`` or ``probs.npy`` with ``labels.npy``
    beside it, or a folder of these; C order) and in ``.parquet``, whose row groups should be small: memory
    holds one at a time. Everything else is read whole by :func:`load_predictions`.

    Args:
        path: A file as for :func:`load_predictions`.
        labels: A ``.npy`` file of labels for scores in a ``.npy`` file, if none stands beside it.
        stream: Whether to read in pieces; by default where the scores take more than 512 MiB.
        kind: As of :func:`load_predictions`.

    Returns:
        Predictions; in pieces, a :class:`StreamedPredictions`.

    Raises:
        InputError: If something is wrong with the file, or ``stream`` is asked of one that must be read
            whole.
        OSError: If it cannot be opened.

    Example:
        >>> import numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(pathlib.Path(folder) / "logits.npy", np.random.default_rng(0).normal(size=(9, 3)))
        ...     np.save(pathlib.Path(folder) / "labels.npy", np.arange(9) % 3)
        ...     p = open_predictions(pathlib.Path(folder) / "logits.npy", stream=True)
        ...     print(type(p).__name__, tuple(p.probs_of(slice(2, 5)).shape))
        StreamedPredictions (3, 3)
    """
    path = Path(path)
    with said_of(path, "opened"):
        is_folder = path.is_dir()
    pairs = any(path.glob("*.npy")) if is_folder else path.suffix.lower() == ".npy"
    if labels is not None and not pairs:
        raise InputError(f"`labels` go with scores in a .npy file; {path} holds its own.")
    if not path.exists() or (not pairs and (is_folder or path.suffix.lower() != ".parquet")):
        if stream:
            raise InputError(f"{path} can only be read whole; .npy and .parquet files are read in pieces.")
        return load_predictions(path, kind=kind)
    labels = None if labels is None else Path(labels)
    try:
        size = npy_pairs.size_of_scores(path, labels) if pairs else chunks_parquet.size_of_scores(path)
        if _held(size, stream):
            return npy_pairs.read_pairs(path, kind, labels) if pairs else load_predictions(path, kind=kind)
        if pairs:
            return npy_pairs.stream_pairs(path, kind, labels)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        source = Source(name=path.name, sha256=digest, format="parquet", path=str(path))
        return chunks_parquet.stream_parquet(path, source, kind)
    except (InputError, TypeError) as error:
        said = " ".join(str(error).split())
        raise InputError(said if said.startswith(str(path)) else f"{path}: {said}") from error


def _held(size: int, stream: bool | None) -> bool:
    """Whether scores of this size (0: that can only be read whole) are held in memory."""
    if stream and size == 0:
        raise InputError("only the scores of several classes, with one label each, are read in pieces.")
    return size == 0 or not (size > STREAM_ABOVE if stream is None else stream)
