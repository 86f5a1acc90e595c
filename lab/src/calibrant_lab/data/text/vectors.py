"""Word vectors from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, file_or_data, reason
from calibrant._math.shapes import Float


def read_vectors(path: Path, vocabulary: Sequence[str]) -> Float[Tensor, "V D"]:
    """Vectors of padding and of the words of a vocabulary; NaN for those that the file does not know.

    The file is an ``.npz`` of ``words`` and ``vectors``, or text as GloVe comes: a word and its numbers on
    each line. Where a word is unknown as it is written, its lower-case form counts. Row 0, padding, is zero.
    """
    wanted = {form for word in vocabulary for form in (word, word.lower())}
    try:
        known = _from_archive(path, wanted) if path.suffix == ".npz" else _from_lines(path, wanted)
    except DAMAGE as error:
        raise InputError(
            f"{path} cannot be read as word vectors ({reason(error)}); it must be GloVe's text, "
            "or an .npz file of words and vectors."
        ) from error
    if not known:
        raise InputError(f"{path} knows none of the {len(vocabulary)} words; take vectors of this language.")
    for word, vector in known.items():
        if not np.isfinite(vector).all():
            raise InputError(f"{path} must hold finite numbers; those of {word!r} are not.")
    size = len(next(iter(known.values())))
    found = np.full((len(vocabulary) + 1, size), np.nan, dtype=np.float32)
    found[0] = 0.0
    for row, word in enumerate(vocabulary, start=1):
        vector = known.get(word, known.get(word.lower()))
        if vector is not None:
            found[row] = vector
    return torch.from_numpy(found)


def no_vectors(vocabulary: Sequence[str], size: int = 100) -> Float[Tensor, "V D"]:
    found = torch.full((len(vocabulary) + 1, size), torch.nan)
    found[0] = 0.0
    return found


def vectors_path(name: str) -> Path:
    path = file_or_data(name)
    if path is None:
        raise InputError(
            "data.vectors must name a file of word vectors, by its path or inside the folder CALIBRANT_DATA; "
            f"there is no {name}."
        )
    return path


def _from_archive(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        words, vectors = archive["words"], archive["vectors"]
    if vectors.ndim != 2 or words.shape != vectors.shape[:1] or not vectors.size:
        raise ValueError(f"words of shape {words.shape}, vectors of shape {vectors.shape}")
    if vectors.dtype.kind not in "fiu":
        raise ValueError(f"vectors of {vectors.dtype}")
    rows = {str(word): row for row, word in enumerate(words) if str(word) in wanted}
    return {word: vectors[row].astype(np.float32) for word, row in rows.items()}


def _from_lines(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    known: dict[str, np.ndarray] = {}
    size = 0
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            word, *rest = line.rstrip().split(" ")
            size = size or len(rest)
            # GloVe 840B has a few "words" with spaces, which no tokenizer here makes.
            if word in wanted and len(rest) == size:
                known[word] = np.array(rest, dtype=np.float32)
            elif len(rest) < size or size < 2:
                raise ValueError(f"line {number} holds a word and {len(rest)} numbers")
    return known
