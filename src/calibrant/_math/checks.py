"""Checks of scores, labels and weights before any computation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from calibrant._math.arrays import (
    VOTES_AS_LABELS,
    ArrayLike,
    as_float_tensor,
    as_label_tensor,
    first_row,
    refuse_rows,
    row_slices,
)
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.large_tables import is_large, read_rows, read_table
from calibrant._math.shapes import Bool, Float, Int

Task: TypeAlias = Literal["binary", "multiclass", "multilabel"]

ROW_SUM_TOLERANCE = 1e-3
_HEAD = 256  # rows that usually show whether logits look like probabilities
_SURE = 0.05
_FEWEST = 10  # numbers needed to take logits for probabilities
_LEAST_WEIGHT, _LARGEST_WEIGHT = 1e-60, 1e60
"""Fourth powers, and sums of them, stay finite."""
FROM_LOGITS = "pass `from_logits=True`"
NO_NUMBER = "leave that row out, or check the model's input"
"""Remedy for NaN."""


@dataclass(frozen=True)
class Checked:
    scores: Float[Tensor, " N"] | Float[Tensor, "N C"]
    labels: Int[Tensor, " N"] | Int[Tensor, "N C"] | None
    weights: Float[Tensor, " N"] | None
    task: Task
    num_classes: int
    top: tuple[Float[Tensor, " N"], Bool[Tensor, " N"]] | None = None
    """The largest probability of each row, in float64, and whether it is the true class's, if a check had to
    find that."""

    @property
    def num_samples(self) -> int:
        return self.scores.shape[0]

    @property
    def target(self) -> Int[Tensor, " N"] | Int[Tensor, "N C"]:
        if self.labels is None:
            raise InputError("`labels` must be given.")
        return self.labels


def check_logits(
    logits: ArrayLike,
    labels: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    task: Task | None = None,
    allow_minus_inf: bool = False,
) -> Checked:
    """Check logits ``(N, C)`` or log-odds ``(N,)``; the shape of the labels (or ``task``) sets the task.

    ``allow_minus_inf`` accepts the logarithm of zero (for log-odds also +inf, a probability of one).
    """
    checked = _check_shapes("logits", as_float_tensor(logits, name="logits"), labels, weights, task)
    _check_logit_values(checked.scores, checked.task, allow_minus_inf=allow_minus_inf)
    return checked


def check_probs(
    probs: ArrayLike,
    labels: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    *,
    task: Task | None = None,
    find_top: bool = False,
    ignore_index: int | None = None,
    takes_logits: bool = False,
) -> Checked:
    """Check class probabilities ``(N, C)`` or probabilities of an event ``(N,)``.

    ``find_top`` finds the most probable class and whether it is true in the same pass, which saves time.
    In a table ``(N, C, d1, ...)`` with labels ``(N, d1, ...)`` every position is a
    row. Rows whose label is ``ignore_index`` are dropped unchecked.
    ``takes_logits`` states that the caller accepts ``from_logits=True``, which messages then suggest.
    Rows of a multiclass table may miss one by ``row_sum_tolerance``; they are not rescaled.
    """
    scores = as_float_tensor(probs, name="probs")
    if scores.ndim > 2 and labels is not None:
        target = as_label_tensor(labels, name="labels").to(scores.device)
        mass = None if weights is None else as_float_tensor(weights, name="weights").to(scores.device)
        scores, labels, weights = positions_of("probs", scores, target, mass)
    if ignore_index is not None and labels is not None:
        scores, labels, weights = counted(scores, labels, weights, ignore_index)
    checked = _check_shapes("probs", scores, labels, weights, task)
    if checked.task == "multiclass":
        remedy = FROM_LOGITS if takes_logits else "apply the softmax first"
        labels = checked.labels if find_top else None
        return replace(checked, top=_check_class_probs(checked.scores, labels, remedy))
    low, high = torch.aminmax(checked.scores)
    remedy = FROM_LOGITS if takes_logits else "apply the sigmoid first"
    _check_range(low, high, checked.scores, limit=1.0, remedy=remedy)
    return checked


def check_weights(weights: ArrayLike, num_samples: int, *, device: torch.device | None = None) -> Tensor:
    """Sample weights as float64 ``(N,)``: not negative, not all zero, of a computable size."""
    tensor = as_float_tensor(weights, name="weights").to(device=device, dtype=torch.float64)
    if tensor.shape != (num_samples,):
        raise InputError(f"`weights` must have shape ({num_samples},), one per sample; got {_shape(tensor)}.")
    refuse_rows(
        ~(torch.isfinite(tensor) & (tensor >= 0)),
        lambda row: f"`weights` must be finite and not negative; row {row} holds {tensor[row].item():g}.",
    )
    if not bool(tensor.any()):
        raise InputError("`weights` must not all be zero; give at least one sample a positive weight.")
    largest = float(tensor.max())
    if not _LEAST_WEIGHT <= largest <= _LARGEST_WEIGHT:
        raise InputError(
            f"`weights` must be at most {_LARGEST_WEIGHT:g}, and not all below {_LEAST_WEIGHT:g}; the "
            f"largest is {largest:g}; divide all of them by the same number."
        )
    return tensor


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    choices = tuple(choices)
    if value not in choices:
        known = ", ".join(f'"{choice}"' for choice in choices)
        raise InputError(f"`{name}` must be one of {known}; got {value!r}.")


def check_at_least(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise InputError(f"`{name}` must be at least {least}; got {value}.")


def check_level(level: float) -> None:
    check_is_number("level", level)
    if not 0 < level < 1:
        raise InputError(f"`level` must be between 0 and 1, as in 0.95; got {level}.")


def check_is_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, float | int | Real):  # the common ones first
        raise TypeError(f"`{name}` must be a number; got {value!r}.")


def check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"`{name}` must be between 0 and 1; got {value}.")


def check_num_bins(num_bins: object) -> None:
    check_whole("num_bins", num_bins, 1)


def check_whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        remedy = f"; write {int(value)}" if isinstance(value, float) and value.is_integer() else ""
        raise TypeError(f"`{name}` must be an integer; got {value!r}{remedy}.")
    check_at_least(name, value, least)  # pyright: ignore[reportArgumentType]


def row_sum_tolerance(dtype: torch.dtype) -> float:
    """Tolerance of a row's sum: 1e-3, or the resolution of the dtype (bfloat16: 8e-3)."""
    return max(ROW_SUM_TOLERANCE, torch.finfo(dtype).eps)


def _check_shapes(
    name: str, scores: Tensor, labels: ArrayLike | None, weights: ArrayLike | None, task: Task | None
) -> Checked:
    """Check everything about labels and weights, and everything about scores except their values."""
    if scores.device.type == "mps":  # has no float64
        scores = scores.cpu()
    if scores.ndim not in {1, 2}:
        raise InputError(f"`{name}` must have shape (N,) or (N, C); got {_shape(scores)}.")
    if scores.shape[0] == 0:
        raise InputError(f"`{name}` must hold at least one sample; got shape {_shape(scores)}.")
    if scores.ndim == 2 and scores.shape[1] < 2:
        raise InputError(
            f"`{name}` must have at least two columns; got shape {_shape(scores)}; "
            f"for a binary model with one output pass `{name}[:, 0]`."
        )
    num_samples = scores.shape[0]
    target = None if labels is None else as_label_tensor(labels, name="labels").to(scores.device)
    if task is None and target is not None:
        target = _as_classes(name, scores, target)
    found = _task(name, scores, target)
    if task is not None and task != found:
        if target is not None or {task, found} != {"multiclass", "multilabel"}:
            of_labels = "" if target is None else f", with labels of shape {_shape(target)}"
            raise InputError(f"`{name}` must be {task}; got {found} of shape {_shape(scores)}{of_labels}.")
        found = task  # without labels, shape cannot distinguish the two
    num_classes = 2 if scores.ndim == 1 else scores.shape[1]
    if target is not None:
        check_label_range(target, num_classes if found == "multiclass" else 2)
    return Checked(
        scores=scores,
        labels=target,
        weights=None if weights is None else check_weights(weights, num_samples, device=scores.device),
        task=found,
        num_classes=num_classes,
    )


def _as_classes(name: str, scores: Tensor, labels: Tensor) -> Tensor:
    """Read one-hot labels of rows that sum to one as classes; leave others unchanged."""
    if labels.shape != scores.shape or not are_one_hot(labels):
        return labels
    if not sum_to_one(scores, logarithms=name == "logits"):
        return labels
    warnings.warn(
        "`labels` are one-hot and probabilities sum to one, so labels are read as classes; for several "
        f"labels per sample pass one column at a time, `{name}[:, k]` with `labels[:, k]`.",
        CalibrantWarning,
        stacklevel=4,
    )
    return labels.argmax(dim=1)


def _task(name: str, scores: Tensor, labels: Tensor | None) -> Task:
    if labels is None or labels.shape == scores.shape[:1]:
        return "binary" if scores.ndim == 1 else "multiclass"
    if labels.shape == scores.shape:
        return "multilabel"
    remedy = "; pass `labels[:, 0]`" if labels.ndim == 2 and labels.shape[1] == 1 else ""
    raise InputError(
        f"`labels` must have shape ({scores.shape[0]},)"
        + (f", or {_shape(scores)} for several labels per sample," if scores.ndim == 2 else "")
        + f" to go with `{name}` of shape {_shape(scores)}; got {_shape(labels)}{remedy}."
    )


def check_label_range(labels: Tensor, num_classes: int) -> None:
    low, high = torch.aminmax(labels)
    if int(low) >= 0 and int(high) < num_classes:
        return
    row = first_row((labels < 0) | (labels >= num_classes))
    allowed = "0 or 1" if num_classes == 2 else f"in 0..{num_classes - 1}"
    remedy = _other_codes(labels, num_classes)
    raise InputError(f"`labels` must be {allowed}; row {row} holds {labels[row].tolist()}{remedy}.")


def _other_codes(labels: Tensor, num_classes: int) -> str:
    """Remedy for labels coded 1 to K instead of 0 to K - 1, or -1 and 1, or with gaps."""
    low, high = (int(end) for end in torch.aminmax(labels))
    if labels.ndim == 2 and low >= 0 and bool((labels.sum(dim=1) > 1).all()):  # counts of votes
        return VOTES_AS_LABELS
    if low == 1 and high == num_classes:
        or_name = ", or give the code of class 1 as --positive-class" if num_classes == 2 else ""
        return f"; if they start at 1, subtract one{or_name}"
    if low == -1 and num_classes == 2 and bool((labels.abs() == 1).all()):
        return "; if -1 means 0, write 0"
    outside = labels[(labels < 0) | (labels >= num_classes)]
    one_code = int(outside.max()) > num_classes and bool((outside == outside[0]).all())  # such as 255
    return "; if that means no label, drop such rows" if low < 0 or one_code else ""


def _check_logit_values(logits: Tensor, task: Task, *, allow_minus_inf: bool) -> None:
    """Refuse NaN, and infinities that are not probabilities of exactly zero or one."""
    low, high = torch.aminmax(logits)  # NaN propagates to both
    if math.isfinite(low.item()) and math.isfinite(high.item()):
        return
    if not allow_minus_inf:
        row = first_row(~torch.isfinite(logits))
        raise not_finite(row, _first_bad(logits[row]))
    bad = logits.isnan() if task != "multiclass" else ~(logits < torch.inf)
    if bool(bad.any()):
        row = first_row(bad)
        raise not_finite(row, _first_bad(logits[row]), rule="finite or -inf")
    if task == "multiclass":
        refuse_rows(
            logits.amax(dim=1) == -torch.inf,
            lambda row: f"`logits` must leave some class possible; row {row} is -inf throughout.",
        )


def not_finite(row: int, value: float, *, rule: str = "finite") -> InputError:
    if value == -math.inf:
        remedy = "if a class is impossible, pass `probs`, which can be 0"
    elif math.isnan(value):
        remedy = NO_NUMBER
    else:
        remedy = "the model overflows: compute in float32 or float64"
    return InputError(f"`logits` must be {rule}; row {row} holds {value}; {remedy}.")


def _check_class_probs(
    probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"] | None, remedy: str
) -> tuple[Tensor, Tensor] | None:
    """Check values in [0, 1] and row sums; with labels return the top probability and its correctness."""
    slack = row_sum_tolerance(probs.dtype)
    if is_large(probs):
        facts = read_table(probs, labels)
        if facts.low >= 0 and facts.high <= 1 + slack and facts.furthest <= slack:
            return None if labels is None else (facts.highest, facts.correct)
        # The code below finds the fault.
    confidences = torch.empty(len(probs), dtype=torch.float64, device=probs.device)
    correct = torch.empty(len(probs), dtype=torch.bool, device=probs.device)
    for rows in row_slices(probs, times=4):
        chunk = probs[rows]
        facts = read_rows(chunk, None if labels is None else labels[rows])
        _check_range(
            facts.low, facts.highest.amax(), chunk, limit=1 + slack, remedy=remedy, before=rows.start
        )
        bad = (facts.sums - 1).abs_() > slack
        if bool(bad.any()):
            row = first_row(bad)
            raise InputError(
                "`probs` must have rows summing to 1; "
                f"row {rows.start + row} sums to {facts.sums[row].item():.6g}; "
                f"for logits {remedy}, for several labels per sample pass labels (N, C)."
            )
        if facts.correct is not None:
            confidences[rows], correct[rows] = facts.highest, facts.correct
    return None if labels is None else (confidences, correct)


def _check_range(
    low: Tensor, high: Tensor, probs: Tensor, *, limit: float, remedy: str, before: int = 0
) -> None:
    if float(low) >= 0 and float(high) <= limit:
        return
    row, value = first_outside(probs, limit)
    remedy = NO_NUMBER if math.isnan(value) else f"if they are logits, {remedy}"
    raise InputError(f"`probs` must be between 0 and 1; row {before + row} holds {value:g}; {remedy}.")


def first_outside(probs: Tensor, limit: float) -> tuple[int, float]:
    bad = ~((probs >= 0) & (probs <= limit))
    row = first_row(bad)
    return row, float(probs[row][bad[row]].reshape(-1)[0])


def _first_bad(row: Tensor) -> float:
    values = row.reshape(-1)
    return float(values[~torch.isfinite(values)][0])


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def seem_probabilities(logits: Tensor, *, multiclass: bool) -> str | None:
    """Description of logits that look like probabilities, without the remedy; else None."""
    for rows in (slice(_HEAD), slice(None)):  # the first rows usually decide
        part = logits[rows]
        if part.numel() < _FEWEST or bool((part < 0).any()) or bool((part > 1).any()):
            return None
    if multiclass:
        if bool(((logits.to(torch.float64).sum(dim=1) - 1).abs() > ROW_SUM_TOLERANCE).any()):
            return None
        return "every row of `logits` sums to one, as probabilities do"
    if not bool((logits < _SURE).any()) or not bool((logits > 1 - _SURE).any()):
        return None  # weak log-odds can be in 0..1
    return "all `logits` lie in 0..1, as probabilities do"


def are_one_hot(labels: Tensor) -> bool:
    if labels.ndim != 2 or labels.shape[1] < 2 or not len(labels):
        return False
    return all(
        bool(((part == 0) | (part == 1)).all()) and bool((part.sum(dim=1) == 1).all())
        for part in (labels[rows] for rows in row_slices(labels))
    )


def sum_to_one(scores: Tensor, *, logarithms: bool) -> bool:
    for rows in row_slices(scores):
        part = scores[rows].to(torch.float64)
        sums = part.logsumexp(dim=1).exp() if logarithms else part.sum(dim=1)
        if not bool(((sums - 1).abs() <= row_sum_tolerance(scores.dtype)).all()):
            return False
    return True


def positions_of(
    name: str, scores: Tensor, labels: Tensor, weights: Tensor | None
) -> tuple[
    Float[Tensor, " M"] | Float[Tensor, "M C"],
    Int[Tensor, " M"] | Int[Tensor, "M C"],
    Float[Tensor, " M"] | None,
]:
    """Scores ``(N, C, d1, ...)`` with labels and weights, one row per position, in the order of the labels.

    Labels ``(N, d1, ...)`` are classes; labels of the scores' shape are several labels per position.
    Weights are one per sample ``(N,)``, shared by its positions, or one per position ``(N, d1, ...)``.
    A single channel is the score of an event: its rows have one dimension. Refuses shapes that disagree.
    """
    places = (scores.shape[0], *scores.shape[2:])
    several = labels.shape == scores.shape
    if several and scores.ndim == 3:
        warnings.warn(
            f"`labels` of the shape of `{name}`, {tuple(scores.shape)}, are read as {scores.shape[1]} labels "
            f"at each of {scores.shape[2]} positions; for one event per pixel pass `{name}[:, None]`.",
            CalibrantWarning,
            stacklevel=4,
        )
    if labels.shape != places and not several:
        raise InputError(
            f"`labels` must have shape {places}, one class per position, to go with `{name}` of shape "
            f"{tuple(scores.shape)}; got {tuple(labels.shape)}."
        )
    if weights is not None:
        weights = weights_of_positions(weights, places)
    if scores.shape[1] == 1:
        return scores.reshape(-1), labels.reshape(-1), weights
    return rows_of_positions(scores), rows_of_positions(labels) if several else labels.reshape(-1), weights


def rows_of_positions(table: Tensor) -> Tensor:
    """One row per position: ``(N, C, d1, ...)`` -> ``(N d1 ..., C)``."""
    return table.movedim(1, -1).reshape(-1, table.shape[1])


def weights_of_positions(weights: Tensor, places: tuple[int, ...]) -> Float[Tensor, " M"]:
    if weights.shape == places[:1] and weights.ndim:
        return weights.reshape(-1, *[1] * (len(places) - 1)).expand(places).reshape(-1)
    if weights.shape != places:
        either = f"{places[:1]} or " if len(places) > 1 else ""
        raise InputError(f"`weights` must have shape {either}{places}; got {_shape(weights)}.")
    return weights.reshape(-1)


def counted(
    scores: Tensor, labels: ArrayLike, weights: ArrayLike | None, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows whose label, or any label, differs from ``ignore_index``.

    If scores and labels disagree in shape, all rows stay, and the later check of shapes reports it.
    Refuses input with no row left, or without one weight per row.
    """
    target = as_label_tensor(labels, name="labels").to(scores.device)
    mass = None if weights is None else as_float_tensor(weights, name="weights").to(scores.device)
    if scores.ndim not in {1, 2} or target.shape not in {scores.shape, scores.shape[:1]}:
        return scores, target, mass
    if mass is not None and mass.shape != scores.shape[:1]:
        raise InputError(
            f"`weights` must have shape ({len(scores)},), one per sample; got {tuple(mass.shape)}."
        )
    kept = target != ignore_index
    kept = kept if kept.ndim == 1 else kept.all(dim=1)
    if not bool(kept.any()):
        raise InputError(f"`labels` must not all be {ignore_index}; no position is left.")
    return scores[kept], target[kept], None if mass is None else mass[kept]
