"""Check the caller's input and turn it into the tensors and names of predictions."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import combinations
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor, as_label_tensor, first_row, row_slices
from calibrant._math.checks import NO_NUMBER, ROW_SUM_TOLERANCE, first_outside, row_sum_tolerance
from calibrant._math.errors import InputError
from calibrant._math.text_form import kind_of

Kind: TypeAlias = Literal["binary", "multiclass", "multilabel", "top_label"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# A float32 softmax over 1000 classes sums to one within 1e-6. One bound for every dtype keeps a file and
# its copy in another format the same: text has no dtype.
ROUNDING_TOLERANCE = 1e-5
SPLIT_WORDS = (("0", "0.0", "false", "calibration", "val", "validation"), ("1", "1.0", "true", "test"))
SPLIT_CODES = {word: code for code, words in enumerate(SPLIT_WORDS) for word in words}
UNKNOWN = "unknown"
"""The group of samples without one."""
_IF_LOGITS = "if they are logits, name them `logits` (--logit-columns)"
_PERCENT = "pass `percent=True` (--percent) if all are percentages"

_least_samples: ContextVar[int] = ContextVar("least_samples", default=2)


@contextmanager
def one_sample_allowed() -> Generator[None]:
    """Allow predictions of a single sample in this context, which can be repaired but not evaluated."""
    token = _least_samples.set(1)
    try:
        yield
    finally:
        _least_samples.reset(token)


def refuse_too_few(num_samples: int, name: str, *, judged: bool = True) -> None:
    """Refuse fewer samples than predictions need: two if they have labels to evaluate."""
    least = _least_samples.get() if judged else 1
    if num_samples < least:
        samples = "one sample" if least == 1 else "two samples"
        raise InputError(f"{name} must hold at least {samples}; got {num_samples}.")


def as_scores(values: ArrayLike, *, name: str, judged: bool = True) -> Tensor:
    """Return a float tensor on the CPU; refuse too few samples."""
    tensor = as_float_tensor(values, name=name).cpu()
    if tensor.ndim == 0:
        raise InputError(f"`{name}` must have shape (N,) or (N, C); got ().")
    refuse_too_few(tensor.shape[0], f"`{name}`", judged=judged)
    return tensor


def repair_events(probs: Tensor, *, name: str) -> tuple[Tensor, tuple[str, ...]]:
    """Set event probabilities at most 1e-3 above one to one, and note it."""
    _refuse_outside(probs, name=name, slack=ROW_SUM_TOLERANCE)
    largest = float(probs.max())
    if largest <= 1:
        return probs, ()
    count = int((probs > 1).sum())
    note = f"{count} of {probs.numel()} values of `{name}` exceeded 1, by up to {largest - 1:.2g}"
    return probs.clamp(max=1), (f"{note}, and {'was' if count == 1 else 'were'} set to 1.",)


def repair_rows(probs: Tensor) -> tuple[Tensor, Tensor, float]:
    """Divide rows whose sum misses one by more than rounding by their sum; refuse larger misses.

    Also returns which rows these are ``(N,)``, and the largest miss among them.
    """
    slack = row_sum_tolerance(probs.dtype)
    _refuse_outside(probs, name="probs", slack=slack)
    repaired, largest, changed = probs, 0.0, torch.zeros(len(probs), dtype=torch.bool)
    for rows in row_slices(probs):
        chunk = probs[rows].to(torch.float64)
        sums = chunk.sum(dim=1)
        miss = (sums - 1).abs()
        if float(miss.max()) > slack:
            row = first_row(miss > slack)
            raise InputError(
                f"`probs` must have rows summing to 1; row {rows.start + row} sums to "
                f"{sums[row].item():.6g}; {_IF_LOGITS}; if rounded, "
                "divide each row by its sum; for several labels, use the kind multilabel."
            )
        bad = (miss > ROUNDING_TOLERANCE) | (chunk > 1).any(dim=1)
        if bool(bad.any()):
            if repaired is probs:  # half precision cannot hold a row that sums to one
                repaired = probs.to(torch.promote_types(probs.dtype, torch.float32), copy=True)
            repaired[rows][bad] = (chunk[bad] / sums[bad, None]).to(repaired.dtype)
            changed[rows] = bad
            largest = max(largest, float(miss[bad].max()))
    return repaired, changed, largest


def rows_divided(count: int, num_rows: int, largest: float) -> tuple[str, ...]:
    """Return the note on repaired rows, if any."""
    divided = "was divided by its sum" if count == 1 else "were divided by their sum"
    said = f"{count} of {num_rows} rows of `probs` missed one, by up to {largest:.2g}, and {divided}."
    return (said,) if count else ()


def as_split(values: ArrayLike, num_samples: int) -> Tensor:
    """Return each sample's split as uint8: 0 calibration, 1 test."""
    rule = "`split` must be 0 (calibration, val) or 1 (test)"
    if (texts := as_texts(values)) is not None:
        codes = [SPLIT_CODES.get(text.lower(), -1) for text in texts]
        if -1 in codes:
            row = codes.index(-1)
            raise InputError(f"{rule}; row {row} holds {shown(texts[row])}.")
        values = codes
    tensor = one_number_each(values, num_samples, name="split")
    refuse_beyond_one(tensor, rule)
    return tensor.to(torch.uint8)


def one_number_each(values: ArrayLike, num_samples: int, *, name: str) -> Tensor:
    tensor = as_label_tensor(values, name=name).cpu()
    if tensor.shape != (num_samples,):
        raise InputError(
            f"`{name}` must have shape ({num_samples},), one per sample; got {tuple(tensor.shape)}."
        )
    return tensor


def as_names(values: ArrayLike, *, name: str) -> tuple[str, ...]:
    """Return names that every file can hold: stripped, one line, valid UTF-8."""
    listed = _as_array(values)
    listed = listed.tolist() if isinstance(listed, np.ndarray | torch.Tensor) else listed
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise TypeError(f"`{name}` must be a sequence of names; got {type(values).__name__}.")
    return tuple(_name(item, f"`{name}`", row) for row, item in enumerate(listed))


def check_class_names(names: tuple[str, ...], num_classes: int) -> tuple[str, ...] | None:
    """Check one name per class; the plain numbers 0, 1, ... in order count as no names."""
    if len(names) != num_classes:
        raise InputError(f"`class_names` must hold {num_classes} names, one per class; got {len(names)}.")
    if "" in names:
        raise InputError(f"`class_names` must not hold empty names; number {names.index('')} is empty.")
    return None if names == tuple(str(index) for index in range(num_classes)) else names


def as_groups(values: ArrayLike | None, num_samples: int, *, name: str = "groups") -> tuple[str, ...] | None:
    """Return the group or cluster name of each sample, if any."""
    if values is None:
        return None
    groups = as_names(values, name=name)
    if len(groups) != num_samples:
        raise InputError(f"`{name}` must hold {num_samples} names, one per sample; got {len(groups)}.")
    if "" not in groups or name != "clusters":
        return tuple(group or UNKNOWN for group in groups)
    raise InputError(
        f"`clusters` must hold a name in every row; row {groups.index('')} is empty; leave that row out, or "
        "call it by a name of its own."
    )


def as_rows(index: slice | ArrayLike, num_samples: int) -> slice | Tensor:
    """Return a forward slice, or the row numbers that a mask, row numbers or a backward slice select."""
    if isinstance(index, slice):
        if (index.step or 1) > 0:
            return index
        index = list(range(num_samples)[index])  # tensors know no backward slices
    given = index if isinstance(index, torch.Tensor) else torch.tensor(np.asarray(index))
    if given.ndim != 1 or (given.dtype == torch.bool and len(given) != num_samples):
        raise InputError(
            f"`index` must be a slice, row numbers, or a mask of shape ({num_samples},); "
            f"got shape {tuple(given.shape)}."
        )
    if given.dtype == torch.bool:
        return torch.nonzero(given.cpu())[:, 0]
    numbers = as_label_tensor(given, name="index").cpu()
    strangers = numbers[(numbers < -num_samples) | (numbers >= num_samples)]
    if len(strangers) > 0:
        raise InputError(f"`index` must name one of {num_samples} rows; got {int(strangers[0])}.")
    return numbers % num_samples


def as_texts(values: Any) -> list[str] | None:
    """Return the values as stripped texts, or None if they are not texts."""
    values = _as_array(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "USO":
        listed: list[Any] = values.reshape(-1).tolist() if values.ndim == 0 else values.tolist()
    elif isinstance(values, list | tuple):
        listed = list(values)
    else:
        return None
    if not listed or not all(isinstance(item, str | bytes) for item in listed):
        return None
    return [_name(item, "a text", row) for row, item in enumerate(listed)]


def refuse_other_order(given: Mapping[str, Any]) -> None:
    """Refuse pandas objects with the same index in another order: samples are matched by position."""
    indices = {name: each.index for name, each in given.items() if hasattr(each, "iloc")}
    for (one, index), (other, shuffled) in combinations(indices.items(), 2):
        if len(index) != len(shuffled) or index.equals(shuffled):
            continue
        if bool(index.isin(shuffled).all()) and bool(shuffled.isin(index).all()):
            raise InputError(
                f"`{other}` has the index of `{one}` in another order, and samples are matched by position; "
                f"bring it into that order (`{other} = {other}.loc[{one}.index]`), or drop an index that "
                f"says nothing (`{other}.reset_index(drop=True)`)."
            )


def _as_array(values: Any) -> Any:
    """Return columns of pandas, polars and pyarrow as arrays; leave everything else unchanged."""
    if isinstance(values, Tensor | np.ndarray) or not hasattr(values, "__array__"):
        return values
    return np.asarray(values)


def shown(text: str) -> str:
    """Quote a text for a message, in one short line."""
    return repr(text if len(text) <= 60 else text[:60] + "…")


def listing(names: Iterable[str], *, most: int = 12) -> str:
    known = [f"`{name[:60]}`" if name else "(no name)" for name in names]
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def as_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def is_missing(item: Any) -> bool:
    return item is None or str(item) in {"nan", "<NA>", "NaT"}


def _name(item: Any, what: str, row: int) -> str:
    """Return a name in the form that every file format preserves."""
    if isinstance(item, bytes):
        item = item.decode(errors="surrogateescape")
    if isinstance(item, int | np.integer | np.bool):  # a group True stays True, as in text files
        item = str(int(item) if what == "`class_names`" else item)
    if isinstance(item, float) and item.is_integer():  # numpy can give class numbers as floats
        item = str(int(item))
    if not isinstance(item, str):
        got = repr(item) if item is None or isinstance(item, float) else kind_of(item)
        banded = isinstance(item, float) or hasattr(item, "left")  # as an interval of pandas
        remedy = "; turn bands into text, as in `pandas.cut(values, 4).astype(str)`" if banded else ""
        remedy = f"; leave that row out, or call it '{UNKNOWN}'" if is_missing(item) else remedy
        raise TypeError(f"{what} must hold text or whole numbers; row {row} holds {got}{remedy}.")
    name = " ".join(item.split())
    if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise InputError(f"{what} must be UTF-8 without NUL; row {row} holds {shown(item)}.")
    return name


def refuse_beyond_one(tensor: Tensor, rule: str) -> None:
    bad = (tensor < 0) | (tensor > 1)
    if bool(bad.any()):
        row = first_row(bad)
        raise InputError(f"{rule}; row {row} holds {int(tensor[row])}.")


def _refuse_outside(probs: Tensor, *, name: str, slack: float) -> None:
    low, high = torch.aminmax(probs)  # NaN propagates to both
    if float(low) >= 0 and float(high) <= 1 + slack:
        return
    row, value = first_outside(probs, 1 + slack)
    remedy = _IF_LOGITS
    if name == "confidence":
        remedy = "it is the probability of the predicted class"
    if float(low) >= 0 and 2 < float(high) <= 100:
        if probs.ndim > 1:
            remedy = f"{remedy}; {_PERCENT}"
        else:
            beyond, other = int((probs > 1).sum()), f"; {remedy}" if name == "probs" else ""
            slip = "correct it if it is a slip; " if 2 * beyond < len(probs) else ""
            remedy = (
                f"{beyond} of {len(probs)} values exceed 1; {slip}{_PERCENT}, "
                f"`scale=(1, 5)` (--scale 1:5) if all are on a scale from 1 to 5{other}"
            )
    if -ROW_SUM_TOLERANCE <= value < 0:
        remedy = "set it to 0 if it is a rounding error"
    if math.isnan(value):
        remedy = NO_NUMBER
    raise InputError(f"`{name}` must be between 0 and 1; row {row} holds {value:g}; {remedy}.")
