"""Conversion of the caller's tensors, arrays and lists to checked tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, SupportsFloat, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError

# Entries of a table processed at a time: 1 MiB of float64 on a CPU, 128 MiB elsewhere.
CACHED_ELEMENTS = 2**17
DEVICE_ELEMENTS = 2**24
NEAR_EDGE = 1e-13  # of bins of equal width, as a share of the unit interval
MAY_BE_SHARED = 0.51  # two classes cannot both exceed a half, except for the tolerance of a row's sum

_INT64_ENDS = 2**63
_MOST_SHOWN = 40  # characters of a number
_ROUNDED = 0.005  # rounding error of a share with two decimals
NOT_KNOWN = "; leave out rows where it is not known"
_UNKNOWN = frozenset({"None", "nan", "<NA>", "NaT"})
"""Missing values as text in Python, NumPy and pandas."""

_FAMILY = re.compile(r"(?:column|probs?|proba|p|logits?)_(?=.)")
"""Prefixes that the columns of a frame share; polars calls columns without names ``column_0``."""

ArrayLike: TypeAlias = Tensor | np.ndarray[Any, np.dtype[Any]] | Sequence[Any]


def as_float_tensor(values: ArrayLike, *, name: str) -> Tensor:
    """Detached floating tensor on its own device; integers and bools become float64."""
    tensor = _as_tensor(values, name=name)
    return tensor if tensor.is_floating_point() else tensor.to(torch.float64)


VOTES_AS_LABELS = (
    "; to use votes, give a sample one row per class that has any, with their share as its weight "
    "(`weights`) and the sample as its cluster (`clusters`)"
)


def as_label_tensor(values: ArrayLike, *, name: str) -> Tensor:
    """Detached int64 tensor on its own device; floats are accepted if they are whole numbers."""
    tensor = _as_tensor(values, name=name)
    if not tensor.is_floating_point():
        return tensor.to(torch.int64)
    whole = tensor == tensor.round()  # False for NaN
    whole &= torch.isfinite(tensor)
    if not bool(whole.all()):
        row = first_row(~whole)
        hint = _hint_on_fractions(tensor) if name == "labels" else ""
        hint = NOT_KNOWN if bool(tensor[row].isnan().any()) else hint
        raise InputError(f"`{name}` must hold whole numbers; row {row} holds {tensor[row].tolist()}{hint}.")
    _refuse_large(tensor.abs() >= _INT64_ENDS, values, name)
    return tensor.to(torch.int64)


def _hint_on_fractions(labels: Tensor) -> str:
    """Guess the meaning of fractional labels: shares of votes, or probabilities."""
    if labels.ndim == 2 and bool((labels >= 0).all()):
        slack = 1e-3 + _ROUNDED * labels.shape[1]
        if bool(((labels.double().sum(dim=1) - 1).abs() < slack).all()):
            return VOTES_AS_LABELS
    fractions = float(((labels > 0) & (labels < 1)).double().mean())
    return "; these look like probabilities" if fractions > 0.5 else ""


def frame_names(values: Any) -> list[str] | None:
    """Column names of a table (pandas, polars, pyarrow), used as class names; None for other values."""
    columns = getattr(values, "column_names", getattr(values, "columns", None))
    if columns is None or not hasattr(values, "__array__"):
        return None
    names = [str(name) for name in columns]
    cut = all(_FAMILY.match(name) for name in names)
    return [_FAMILY.sub("", name, count=1) for name in names] if cut else names


def first_row(bad: Tensor) -> int:
    return int(bad.reshape(bad.shape[0], -1).any(dim=1).to(torch.uint8).argmax())


def refuse_rows(bad: Tensor, sentence: Callable[[int], str]) -> None:
    if bool(bad.any()):
        raise InputError(sentence(first_row(bad)))


def row_slices(table: Tensor, *, times: int = 1) -> Iterator[slice]:
    """Slices of rows so small that working copies stay in cache (on a GPU: in memory).

    Increase ``times`` if few operations make float64 copies: fewer slices have less overhead.
    """
    num_samples = table.shape[0]
    width = max(1, table.numel() // max(1, num_samples))
    elements = CACHED_ELEMENTS if table.device.type == "cpu" else DEVICE_ELEMENTS
    step = max(1, times * elements // width)
    for start in range(0, num_samples, step):
        yield slice(start, min(start + step, num_samples))


def _as_tensor(values: ArrayLike, *, name: str) -> Tensor:
    """Detached real tensor that shares memory if possible."""
    if isinstance(values, Tensor):
        if values.is_complex():
            raise TypeError(f"`{name}` must be real; got dtype {values.dtype}.")
        if values.is_nested or values.is_quantized:
            what, call = ("nested", "to_padded_tensor") if values.is_nested else ("quantized", "dequantize")
            raise TypeError(f"`{name}` must be a plain tensor; got a {what} one: call `.{call}(…)` first.")
        if values.layout != torch.strided:
            raise TypeError(f"`{name}` must be a dense tensor; got a sparse one: call `.to_dense()` first.")
        if values.is_meta:
            raise TypeError(f"`{name}` must hold numbers; got a tensor on the device meta, which has none.")
        values = values.detach()
        return values.float() if values.is_floating_point() and values.itemsize == 1 else values  # float8
    return torch.from_numpy(_as_native_array(values, name=name))


def refuse_masked(values: Any, *, name: str) -> None:
    """Refuse an array with masked values: every conversion would drop the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = first_row(torch.from_numpy(np.ma.getmaskarray(values)))
        raise InputError(
            f"`{name}` must hold a value in every row; row {row} is masked; leave masked rows out of every "
            "argument."
        )


def _as_native_array(values: Any, *, name: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Array in a dtype and memory layout that ``torch.from_numpy`` takes without a warning."""
    refuse_masked(values, name=name)
    if isinstance(values, (Set, Mapping, Iterator)):
        got = type(values).__name__
        raise TypeError(f"`{name}` must be an array or a list, in the order of the samples; got a {got}.")
    if hasattr(values, "toarray"):
        raise TypeError(f"`{name}` must be a dense array; got a sparse one: call `.toarray()` first.")
    try:
        array = np.asarray(values)
    except ValueError as error:  # a ragged list
        raise InputError(f"`{name}` must be rectangular: every row needs the same length.") from error
    if array.dtype.kind in "OUS":
        array = _of_objects(np.asarray(values, dtype=object), name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold numbers; got dtype {array.dtype}.")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        _refuse_large(array >= _INT64_ENDS, array, name)
        array = array.astype(np.int64)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()  # torch warns about read-only memory and has no negative strides
    return array


def _of_objects(array: np.ndarray[Any, np.dtype[Any]], name: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Python numbers as an array; a ``TypeError`` names the first row without a number."""
    rows = array.tolist() if array.ndim else [array.item()]
    unknown = [row for row, each in enumerate(rows) if str(each) in _UNKNOWN]
    for row, values in enumerate(rows):
        for each in values if isinstance(values, list) else [values]:
            if not isinstance(each, SupportsFloat) or isinstance(each, np.ndarray):
                if unknown and isinstance(each, str):  # words with missing values
                    row, each = unknown[0], rows[unknown[0]]
                remedy = NOT_KNOWN if str(each) in _UNKNOWN else ""
                if name == "labels" and isinstance(each, str):
                    remedy = "; number the classes from 0, as `numpy.unique(labels, return_inverse=True)`"
                raise TypeError(f"`{name}` must hold numbers; row {row} holds {str(each)[:60]!r}{remedy}.")
    if not array.size:
        return array.astype(np.float64)
    found = np.asarray(array.tolist())
    if found.dtype.kind in "biuf":
        return found
    try:
        return array.astype(np.float64)  # whole numbers of any size
    except OverflowError:
        _refuse_large((abs(array) >= _INT64_ENDS).astype(bool), array, name)
        raise


def _refuse_large(large: Any, values: Any, name: str) -> None:
    if bool(large.any()):
        row = first_row(torch.as_tensor(large))
        held = str((values if isinstance(values, Tensor) else np.asarray(values, dtype=object)).tolist()[row])
        held = held if len(held) <= _MOST_SHOWN else f"{held[:20]}…"
        raise InputError(f"`{name}` must be less than 2**63 in size; row {row} holds {held}.") from None


def scattered(count: int) -> Tensor:
    """One random number in each of ``count`` equal parts of [0, 1), the same in every call.

    Use it to pick representative rows: equally spaced rows may share a pattern, such as alternating labels.
    """
    by_chance = torch.rand(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (torch.arange(count) + by_chance) / count
