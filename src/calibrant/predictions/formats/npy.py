"""Arrays in separate ``.npy`` files: ``logits.npy`` next to ``labels.npy``, or a folder of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant._math.shapes import Float
from calibrant.predictions.formats.arrays import fields_of_arrays, known_arrays
from calibrant.predictions.formats.contents import UNSAFE, FileContents, damaged
from calibrant.predictions.formats.names import Chosen, choose, fields_of
from calibrant.predictions.formats.top_k import holds_top_k

SCORES = {"logits": "logits", "logit": "logits", "probs": "probs", "prob": "probs"}
COMPANIONS = ("labels", "split", "weights", "groups", "clusters", "class_names")


class NpyRows:
    """The rows of a two-dimensional ``.npy`` file, by plain reads: a memory map would stay resident."""

    def __init__(self, path: Path) -> None:
        header = _mapped(path)
        if header.ndim != 2 or header.shape[1] < 2:
            raise InputError(f"{path.name} must have shape (N, C); got {header.shape}.")
        if header.dtype.kind != "f" or header.dtype.itemsize > 8:
            raise InputError(f"{path.name} must hold floats of at most 64 bits; its dtype is {header.dtype}.")
        if not header.flags.c_contiguous:
            raise InputError(
                f"{path.name} is stored column by column; write numpy.ascontiguousarray of it to read it in "
                "pieces."
            )
        self._path = path
        self._offset: int = header.offset
        self._dtype = header.dtype
        self.shape: tuple[int, int] = header.shape
        self.dtype: torch.dtype = torch.from_numpy(np.empty(0, self._dtype.newbyteorder("="))).dtype

    def read(self, start: int, stop: int) -> Float[Tensor, "n C"]:
        """Some consecutive rows."""
        width = self.shape[1]
        offset = self._offset + start * width * self._dtype.itemsize
        values = np.fromfile(self._path, self._dtype, (stop - start) * width, offset=offset)
        if len(values) < (stop - start) * width:
            raise InputError(
                f"{self._path.name} was cut off: it ends within row {start + len(values) // width}."
            )
        return torch.from_numpy(values.astype(self._dtype.newbyteorder("="), copy=False).reshape(-1, width))


def find_arrays(path: Path, labels: Path | None = None) -> dict[str, Path]:
    """The files that go together, by what they hold.

    In a folder every ``.npy`` file holds what its name says. With a file ``..._logits_....npy`` go the files
    next to it whose names differ in that word only.
    """
    if path.is_dir():
        found = {each.stem: each for each in sorted(path.glob("*.npy"))}
    else:
        word = next((word for word in re.split(r"[^a-z]+", path.stem.lower()) if word in SCORES), None)
        if word is None:
            raise InputError(
                "its name must say whether it holds logits or probabilities: call it logits.npy or probs.npy."
            )
        pattern = re.compile(rf"(?<![a-zA-Z]){word}(?![a-zA-Z])", flags=re.IGNORECASE)
        beside = {name: path.with_stem(pattern.sub(name, path.stem, count=1)) for name in COMPANIONS}
        found = {SCORES[word]: path} | {name: each for name, each in beside.items() if each.is_file()}
    if labels is not None:
        found["labels"] = labels
    return found


def read(path: Path, labels: Path | None = None) -> FileContents:
    """Read all arrays that go with a file, or of a folder, into memory."""
    files = find_arrays(path, labels)
    used: set[Path] = set()

    def one(name: str) -> Any:
        used.add(files[name])
        return _array(files[name])

    fields = fields_of_arrays(list(files), one)
    return FileContents(fields=fields, paths=tuple(sorted(used)))


def stream(path: Path, labels: Path | None = None) -> FileContents:
    """The same as ``read``, with the scores left in their file."""
    files = _by_known_names(find_arrays(path, labels))
    chosen = choose(files)
    if len(chosen.suffixes) > 1:
        raise InputError(
            "two sets in one folder are not read in pieces; "
            "evaluate the file of the one with `--calibration` for the file of the other."
        )
    arrays: dict[str, Any] = {
        name: NpyRows(files[name]) if name == chosen.space else _array(files[name]) for name in chosen.used
    }
    return _contents(files, chosen, arrays)


def size_of_scores(path: Path, labels: Path | None = None) -> int:
    """Bytes of the scores, or 0 where they can only be read whole (an event, several labels per sample)."""
    files = find_arrays(path, labels)
    if holds_top_k(files):
        return 0
    files = _by_known_names(files)
    if not {"logits", "probs"} & files.keys():
        return 0
    chosen = choose(files)
    if len(chosen.suffixes) > 1:
        return 0
    header = _mapped(files[chosen.space])
    if header.ndim != 2 or header.dtype.kind != "f":
        return 0
    if "labels" in files and _mapped(files["labels"]).ndim != 1:
        return 0
    return header.nbytes


def _mapped(path: Path) -> np.memmap[Any, Any]:
    """A ``.npy`` file of which only the header is read."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        if "pickle" in str(error) or "object" in str(error):
            raise InputError(f"{path.name} holds Python objects, {UNSAFE}.") from error
        raise InputError(damaged(f"the array {path.name}", error)) from error
    if not isinstance(found, np.memmap):
        raise InputError(f"{path.name} is not a .npy file.")
    return found


def _array(path: Path) -> Any:
    mapped = _mapped(path)  # for its checks
    return np.load(path, allow_pickle=False) if mapped.size else np.empty(mapped.shape, mapped.dtype)


def _by_known_names(files: Mapping[str, Path]) -> dict[str, Path]:
    given, _ = known_arrays(list(files))
    return {name: files[own] for name, own in given.items()}


def _contents(files: Mapping[str, Path], chosen: Chosen, arrays: dict[str, Any]) -> FileContents:
    """The arrays with the files that they stand in."""
    paths = tuple(files[name] for name in sorted(chosen.used))
    return FileContents(fields=fields_of(arrays, chosen), paths=paths)
