"""Arrays by name: ``.npz``, ``.safetensors``, ``.pt`` and ``.npy``; nothing in them is unpickled."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant._math.shapes import Float
from calibrant.predictions.formats.aliases import ARRAYS, Header, canonical, said_of_names
from calibrant.predictions.formats.columns import fields_of_cells, layout_of, refuse_decisions
from calibrant.predictions.formats.contents import UNSAFE, Arrays, FileContents, damaged, disk_errors
from calibrant.predictions.formats.mark import MARK
from calibrant.predictions.formats.names import SPACES, as_one_set, choose, fields_of, holds_two_sets
from calibrant.predictions.formats.top_k import fields_of_top_k, holds_top_k
from calibrant.predictions.labels import labels_by_name

_COLUMNS = {array: column for column, array in ARRAYS.items()}
_SCORES_NPY = {"logits": "logits", "logit": "logits", "probs": "probs", "prob": "probs"}
_BESIDE = ("labels", "split", "weights", "groups", "clusters", "class_names")
_BY_NUMPY = "numpy.savez(path, logits=..., labels=...)"
_BY_TORCH = "torch.save({'logits': logits, 'labels': labels}, path)"


def fields_of_arrays(found: Sequence[str], read: Callable[[str], Any]) -> dict[str, Any]:
    """Return the arguments of ``Predictions`` from arrays; only used ones are read."""
    if holds_top_k(found):
        return fields_of_top_k(found, read)
    if holds_two_sets(found):
        found, read = as_one_set(found, read)
        used, unused = choose(found)
        return fields_of({name: read(name) for name in used}, unused)
    header = known_arrays(found)
    given = {ARRAYS.get(name, name): own for name, own in zip(header.names, found, strict=True)}
    scores = given.keys() & {*SPACES}
    by_class = not scores and any(name.startswith(("prob_", "logit_")) for name in given)
    if header.positive is not None or by_class:
        layout = replace(layout_of(header), given=dict(zip(header.names, found, strict=True)))
        try:
            return fields_of_cells(layout, lambda name: _column(read(name), name))
        except InputError:
            raise
        except ValueError as error:
            raise InputError("arrays of single classes must have the same length.") from error
    used, unused = choose(given if scores else found)  # (or what is there is said)
    arrays = {name: read(given[name]) for name in used}
    if "probs" in arrays:
        refuse_decisions(arrays["probs"], given["probs"])
    fields = fields_of(arrays, unused)
    read_as = {own: ARRAYS.get(name, name) for own, name in header.read.items()}
    return fields | {"notes": (*said_of_names(read_as), *fields["notes"])}


def known_arrays(found: Sequence[str]) -> Header:
    """Return the header of arrays, each under the name a column would have."""
    return canonical([_COLUMNS.get(name.lower(), name) if name not in ARRAYS else name for name in found])


def _column(values: Any, name: str) -> Any:
    array = values.numpy() if isinstance(values, torch.Tensor) else values
    if isinstance(array, np.ndarray) and array.ndim > 1:
        raise InputError(f"`{name}` must have shape (N,), as one of several columns; got {array.shape}.")
    return array.tolist() if isinstance(array, np.ndarray) and array.dtype.kind in "US" else array


def read_npz(path: Path) -> FileContents:
    with path.open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
        except DAMAGE as error:
            if "pickle" in str(error):
                raise InputError(
                    "it is not a .npz archive, and pickled objects are not loaded because they could run "
                    f"code; write it with {_BY_NUMPY}."
                ) from error
            raise InputError(damaged("a .npz archive", error)) from error
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError(f"it holds one bare array; write it with {_BY_NUMPY}.")
        twice = [name for name, number in Counter(archive.files).items() if number > 1]
        if twice:
            raise InputError(f"it holds `{twice[0]}` twice; write it with {_BY_NUMPY}.")
        return FileContents(fields=fields_of_arrays(archive.files, lambda name: _member(archive, name)))


def write_npz(arrays: Arrays, path: Path) -> None:
    if "class_names" in arrays and "labels" in arrays:
        arrays = {**arrays, "labels": labels_by_name(arrays["labels"], arrays["class_names"])}
    whole: dict[str, Any] = {
        name: as_numpy(values) if isinstance(values, torch.Tensor) else np.array(values)
        for name, values in arrays.items()
    }
    with path.open("wb") as file:
        np.savez(file, **whole)


def as_numpy(tensor: Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the values in a dtype that numpy supports (bfloat16 becomes float32)."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _member(archive: np.lib.npyio.NpzFile, name: str) -> Any:
    try:
        return archive[name]
    except DAMAGE as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"`{name}` holds Python objects, {UNSAFE}; write numbers, or text as `{name}.astype(str)`."
            ) from error
        raise InputError(damaged(f"`{name}`", error)) from error


def read_safetensors(path: Path) -> FileContents:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            named = ("class_names", "groups", "clusters", "kind", MARK)
            texts = {name: metadata[name] for name in named if name in metadata}
            names = [*file.keys(), *texts]

            def one(name: str) -> Any:
                return _from_json(name, texts[name]) if name in texts else file.get_tensor(name)

            return FileContents(fields=fields_of_arrays(names, one))
    except InputError:
        raise
    except (SafetensorError, *DAMAGE) as error:
        raise InputError(damaged("a .safetensors file", error)) from error


def write_safetensors(arrays: Arrays, path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors = {name: each.contiguous() for name, each in arrays.items() if isinstance(each, torch.Tensor)}
    texts = {
        name: json.dumps(each, ensure_ascii=False) for name, each in arrays.items() if name not in tensors
    }
    with disk_errors(SafetensorError):
        save_file(tensors, path, metadata=texts)


def _from_json(name: str, text: str) -> list[Any]:
    listed = None
    with suppress(ValueError):
        listed = json.loads(text)
    if not isinstance(listed, list):
        raise InputError(f'`{name}` in the metadata must be a JSON list, such as ["cat", "dog"].')
    return listed


def read_pt(path: Path) -> FileContents:
    try:
        with warnings.catch_warnings():  # warnings about unsupported content; it raises where reading fails
            warnings.filterwarnings("ignore", message="Detected pickle protocol", category=UserWarning)
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"it holds pickled objects other than tensors, {UNSAFE}, or it is damaged; write it with "
            f"{_BY_TORCH}."
        ) from error
    except DAMAGE as error:
        raise InputError(damaged("a .pt file", error)) from error
    if not isinstance(loaded, dict):
        raise InputError(f"it holds a {type(loaded).__name__}; write it with {_BY_TORCH}.")
    arrays = {str(name): values for name, values in loaded.items()}
    return FileContents(fields=fields_of_arrays(list(arrays), arrays.__getitem__))


def write_pt(arrays: Arrays, path: Path) -> None:
    whole: dict[str, Any] = {
        name: _trimmed(values) if isinstance(values, torch.Tensor) else list(values)
        for name, values in arrays.items()
    }
    with disk_errors(RuntimeError):
        torch.save(whole, path)


def _trimmed(tensor: Tensor) -> Tensor:
    """Copy a sliced tensor, which would otherwise be saved with all of its storage."""
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


class NpyRows:
    """Rows of a two-dimensional ``.npy`` file, read plainly: a memory map would stay resident."""

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
        width = self.shape[1]
        offset = self._offset + start * width * self._dtype.itemsize
        values = np.fromfile(self._path, self._dtype, (stop - start) * width, offset=offset)
        if len(values) < (stop - start) * width:
            raise InputError(
                f"{self._path.name} was cut off: it ends within row {start + len(values) // width}."
            )
        return torch.from_numpy(values.astype(self._dtype.newbyteorder("="), copy=False).reshape(-1, width))


def _files_of(path: Path, labels: Path | None = None) -> dict[str, Path]:
    """Return the ``.npy`` files of a folder, or of one set ``..._logits_....npy``, by content."""
    if path.is_dir():
        found = {each.stem: each for each in sorted(path.glob("*.npy"))}
    else:
        word = next((word for word in re.split(r"[^a-z]+", path.stem.lower()) if word in _SCORES_NPY), None)
        if word is None:
            raise InputError(
                "its name must say whether it holds logits or probabilities: call it logits.npy or probs.npy."
            )
        pattern = re.compile(rf"(?<![a-zA-Z]){word}(?![a-zA-Z])", flags=re.IGNORECASE)
        beside = {name: path.with_stem(pattern.sub(name, path.stem, count=1)) for name in _BESIDE}
        found = {_SCORES_NPY[word]: path} | {name: each for name, each in beside.items() if each.is_file()}
    if labels is not None:
        found["labels"] = labels
    return found


def read_npy(path: Path, labels: Path | None = None) -> FileContents:
    """Read all arrays of a folder, or of a file and its companions, into memory."""
    files = _files_of(path, labels)
    used: set[Path] = set()

    def one(name: str) -> Any:
        used.add(files[name])
        return _loaded(files[name])

    fields = fields_of_arrays(list(files), one)
    return FileContents(fields=fields, paths=tuple(sorted(used)))


def stream_npy(path: Path, labels: Path | None = None) -> FileContents:
    """Read arrays as ``read_npy`` does, but leave the scores in their file."""
    files = _files_by_name(path, labels)
    if holds_two_sets(files):
        raise InputError(
            "two sets in one folder are not read in pieces; "
            "evaluate one file and pass the other as `--calibration`."
        )
    used, unused = choose(files)
    arrays = {name: NpyRows(files[name]) if name == used[0] else _loaded(files[name]) for name in used}
    return FileContents(fields=fields_of(arrays, unused), paths=tuple(files[name] for name in sorted(used)))


def size_of_npy(path: Path, labels: Path | None = None) -> int:
    """Return the bytes of the scores, or 0 if they must be read whole (an event, several labels)."""
    files = _files_of(path, labels)
    if holds_top_k(files) or holds_two_sets(files):
        return 0
    files = _files_by_name(path, labels)
    if not {"logits", "probs"} & files.keys():
        return 0
    header = _mapped(files[choose(files)[0][0]])
    if header.ndim != 2 or header.dtype.kind != "f":
        return 0
    if "labels" in files and _mapped(files["labels"]).ndim != 1:
        return 0
    return header.nbytes


def _mapped(path: Path) -> np.memmap[Any, Any]:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        if "pickle" in str(error) or "object" in str(error):
            raise InputError(f"{path.name} holds Python objects, {UNSAFE}.") from error
        raise InputError(damaged(f"the array {path.name}", error)) from error
    if not isinstance(found, np.memmap):
        raise InputError(f"{path.name} is not a .npy file.")
    return found


def _loaded(path: Path) -> Any:
    mapped = _mapped(path)  # for its checks
    return np.load(path, allow_pickle=False) if mapped.size else np.empty(mapped.shape, mapped.dtype)


def _files_by_name(path: Path, labels: Path | None) -> dict[str, Path]:
    files = _files_of(path, labels)
    if holds_two_sets(files):
        return files
    names = known_arrays(list(files)).names
    return {ARRAYS.get(name, name): file for name, file in zip(names, files.values(), strict=True)}
