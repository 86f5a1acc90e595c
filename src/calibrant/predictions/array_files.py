"""Files of named arrays: ``.npz``, ``.safetensors``, ``.pt``. No reader runs code that a file holds."""

from __future__ import annotations

import errno
import json
import pickle
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant.predictions.checks import Kind
from calibrant.predictions.keys import arrays_of, choose, predictions_from, texts_from_json
from calibrant.predictions.table import Predictions, Source

if TYPE_CHECKING:
    from torch import Tensor

UNSAFE = "which are not loaded because they could run code"
NPZ = "numpy.savez(path, logits=..., labels=...)"
PT = "torch.save({'logits': logits, 'labels': labels}, path)"


def read_npz(path: Path, source: Source, kind: Kind | None) -> Predictions:
    """Read named numpy arrays; only those that are used."""
    with path.open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
        except DAMAGE as error:
            if "pickle" in str(error):
                raise InputError(
                    "it is not a .npz archive, and pickled objects are not loaded because they could run "
                    f"code; write it by {NPZ}."
                ) from error
            raise InputError(damaged("a .npz archive", error)) from error
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InputError(f"it holds one bare array; write it by {NPZ}.")
        chosen = choose(archive.files)
        arrays = {name: _npz_member(archive, name) for name in chosen.used}
    return predictions_from(arrays, chosen, source=source, kind=kind)


def write_npz(predictions: Predictions, path: Path) -> None:
    """Write named numpy arrays."""
    tensors, texts = arrays_of(predictions)
    arrays: dict[str, Any] = {name: as_numpy(tensor) for name, tensor in tensors.items()}
    arrays |= {name: np.array(text) for name, text in texts.items()}
    with path.open("wb") as file:
        np.savez(file, **arrays)


def read_safetensors(path: Path, source: Source, kind: Kind | None) -> Predictions:
    """Read named tensors; texts are JSON lists in the metadata."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            texts = {name: metadata[name] for name in ("class_names", "groups", "kind") if name in metadata}
            chosen = choose([*file.keys(), *texts])
            tensors = {name: file.get_tensor(name) for name in chosen.used if name not in texts}
    except InputError:
        raise
    except (SafetensorError, *DAMAGE) as error:
        raise InputError(damaged("a .safetensors file", error)) from error
    lists = {name: texts_from_json(name, text) for name, text in texts.items() if name in chosen.used}
    return predictions_from(tensors | lists, chosen, source=source, kind=kind)


def write_safetensors(predictions: Predictions, path: Path) -> None:
    """Write named tensors, and texts as JSON lists into the metadata."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors, texts = arrays_of(predictions)
    metadata = {name: json.dumps(text, ensure_ascii=False) for name, text in texts.items()}
    with _whole(SafetensorError):
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata=metadata)


def read_pt(path: Path, source: Source, kind: Kind | None) -> Predictions:
    """Read a dictionary of tensors and lists of texts; nothing else is unpickled."""
    try:
        with warnings.catch_warnings():  # of what it may not understand; where it does not, it raises
            warnings.filterwarnings("ignore", message="Detected pickle protocol", category=UserWarning)
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"it holds pickled objects other than tensors, {UNSAFE}, or it is damaged; write it by {PT}."
        ) from error
    except DAMAGE as error:
        raise InputError(damaged("a .pt file", error)) from error
    if not isinstance(loaded, dict):
        raise InputError(f"it holds a {type(loaded).__name__}; write it by {PT}.")
    arrays = {str(name): values for name, values in loaded.items()}
    chosen = choose(arrays)
    return predictions_from({name: arrays[name] for name in chosen.used}, chosen, source=source, kind=kind)


def write_pt(predictions: Predictions, path: Path) -> None:
    """Write a dictionary of tensors and lists of texts."""
    tensors, texts = arrays_of(predictions)
    # A tensor is saved with all of its storage: a slice would carry the rows that it leaves out.
    whole = {
        name: tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()
        for name, tensor in tensors.items()
    }
    with _whole(RuntimeError):
        torch.save({**whole, **texts}, path)


@contextmanager
def _whole(error: type[Exception]) -> Generator[None]:
    """What a library raises when the system refuses to write, as the system would say it."""
    try:
        yield
    except error as found:
        raise OSError(errno.EIO, "perhaps the disk is full") from found


def as_numpy(tensor: Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    """The same values in a dtype that numpy knows (bfloat16 becomes float32)."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _npz_member(archive: np.lib.npyio.NpzFile, name: str) -> Any:
    """One array of an archive."""
    try:
        return archive[name]
    except DAMAGE as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"`{name}` holds Python objects, {UNSAFE}; write numbers, or texts as `{name}`.astype(str)."
            ) from error
        raise InputError(damaged(f"`{name}`", error)) from error


def damaged(what: str, error: BaseException) -> str:
    """One sentence for bytes that cannot be read."""
    said = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
    return f"it cannot be read as {what}, perhaps it was cut off or has the wrong ending ({said})."
