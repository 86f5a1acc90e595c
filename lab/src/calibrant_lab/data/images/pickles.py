"""The pickles of the CIFAR archives, read without running anything that they name.

A pickle is a programme. This reader knows the few names that a dictionary of bytes, lists and arrays needs,
and refuses all others.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, reason

_ARRAY = object()  # stands for numpy's type, which must not be called


def _empty_array(kind: object, shape: tuple[int, ...], code: object) -> np.ndarray[Any, Any]:
    """What numpy's pickles begin with: an empty array, which its state then fills."""
    if kind is not _ARRAY or int(np.prod(shape)) != 0:
        raise pickle.UnpicklingError("an array that does not begin empty")
    del code
    return np.ndarray.__new__(np.ndarray, shape, np.int8)


def _latin(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes in old pickles."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"the encoding {encoding!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """How Python 3 writes empty bytes in old pickles."""
    return b""


_KNOWN: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): _ARRAY,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin,
    ("builtins", "bytes"): _no_bytes,
    ("__builtin__", "bytes"): _no_bytes,
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """One of the known names."""
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which a batch of images does not need")
        return _KNOWN[module, name]


def read_pickle(content: bytes, *, source: str) -> dict[bytes, Any]:
    """A dictionary with bytes as keys.

    Raises:
        InputError: If it is damaged, names anything unknown, or is not a dictionary; ``source`` is named.
    """
    try:
        found = _Restricted(io.BytesIO(content), encoding="bytes").load()
    except DAMAGE as error:
        raise InputError(
            f"{source} is not a batch of images ({reason(error)}); get the archive again."
        ) from error
    if not isinstance(found, dict):
        raise InputError(f"{source} is not a batch of images: it holds a {type(found).__name__}.")
    return {key if isinstance(key, bytes) else str(key).encode(): value for key, value in found.items()}
