"""Shared parts of the metrics: reading arguments, several labels per sample, one event at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor, refuse_rows
from calibrant._math.binning import Binning, BinSums, binned, width_column_sums
from calibrant._math.checks import Checked, check_choice, check_num_bins, check_probs
from calibrant._math.errors import InputError
from calibrant._math.scores import top_label, weighted_mean
from calibrant._math.shapes import Bool, Float

Average: TypeAlias = Literal["macro", "none"]
Vector: TypeAlias = NDArray[np.float64]
Measure: TypeAlias = Callable[[Vector, Vector, Vector | None], float]  # of scores, outcomes and weights

_BLOCK = 8  # columns copied at a time: reading one by one would fetch every cache line of the table C times


def averaged(values: Float[Tensor, "*C"], average: str) -> Float[Tensor, ""] | Float[Tensor, "*C"]:
    return values if average == "none" else values.mean()


def check_bandwidth(bandwidth: float | None) -> None:
    if bandwidth is not None and not 0 < bandwidth < math.inf:
        raise InputError(f"`bandwidth` must be positive and finite; got {bandwidth}.")


def check_average(average: str, checked: Checked, *, per_class: bool = False) -> None:
    """Refuse ``average="none"`` if there is only one value; ``per_class``: one value per class."""
    check_choice("average", average, ("macro", "none"))
    if average == "none" and checked.task == "binary":
        raise InputError('`average` must be "macro" for an event (N,): there is only one value.')
    if average == "none" and checked.task == "multiclass" and not per_class:
        raise InputError(
            '`average` must be "macro" for classes (N,); "none" gives one value per column of labels (N, C).'
        )


def columns(checked: Checked) -> Iterator[tuple[Tensor, Tensor]]:
    """Each column of probabilities with its outcomes: a class against the others, a label, the event."""
    probs, labels = checked.scores, checked.target
    if checked.task == "binary":
        yield probs, labels == 1
        return
    for start in range(0, checked.num_classes, _BLOCK):
        block = probs[:, start : start + _BLOCK].t().contiguous()
        for k, column in enumerate(block, start=start):
            yield column, (labels == k if checked.task == "multiclass" else labels[:, k] == 1)


def check_events_average(average: str, checked: Checked, *, classwise: bool) -> None:
    """:func:`check_average` for measures of events: with ``classwise`` every column is one."""
    check_choice("average", average, ("macro", "none"))
    if not classwise:
        check_average(average, checked)


def events(checked: Checked, *, classwise: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
    """Confidences with their outcomes: of the event, of the top label being right, or of every column."""
    if checked.task == "multiclass" and not classwise:
        yield top_outcomes(checked)
    else:
        yield from columns(checked)


def top_outcomes(checked: Checked) -> tuple[Float[Tensor, " N"], Bool[Tensor, " N"]]:
    if checked.top is not None:
        return checked.top
    found = top_label(checked.scores, checked.target)
    return found.confidence, found.correct


def mean_score(
    score: Callable[[Tensor, Tensor], Tensor], checked: Checked, average: Average
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    """Mean over the samples of a score of ``calibrant._math.scores``; one per column if requested."""
    check_average(average, checked)
    if average == "macro":
        return weighted_mean(score(checked.scores, checked.target), checked.weights)
    return torch.stack([weighted_mean(score(p, y), checked.weights) for p, y in columns(checked)])


def calibration_sums(checked: Checked, num_bins: int, binning: Binning) -> BinSums:
    """Bins of the event (binary), of the top label (multiclass) or of every column (multilabel)."""
    _check_bins(num_bins, binning)
    if checked.task == "multilabel":
        return column_sums(checked, num_bins, binning)
    confidences, outcomes = checked.scores, checked.target
    if checked.task == "multiclass":
        confidences, outcomes = top_outcomes(checked)
    return binned(confidences, outcomes, num_bins=num_bins, binning=binning, weights=checked.weights)


def judged_sums(
    probs: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike | None,
    ignore_index: int | None,
    average: Average,
    num_bins: int,
    binning: Binning,
) -> BinSums:
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=True)
    check_average(average, checked)
    return calibration_sums(checked, num_bins, binning)


def column_sums(checked: Checked, num_bins: int, binning: Binning) -> BinSums:
    """Bins of every column against its own outcomes; counts and sums have shape (C, num_bins)."""
    _check_bins(num_bins, binning)
    if binning == "width":
        return width_column_sums(checked.scores, checked.target, num_bins, checked.weights)
    each = [
        binned(p, y, num_bins=num_bins, binning=binning, weights=checked.weights) for p, y in columns(checked)
    ]
    return BinSums(
        torch.stack([sums.edges for sums in each]),
        torch.stack([sums.counts for sums in each]),
        torch.stack([sums.confidences for sums in each]),
        torch.stack([sums.outcomes for sums in each]),
        total=each[0].total,
    )


def _check_bins(num_bins: int, binning: str) -> None:
    check_num_bins(num_bins)
    check_choice("binning", binning, ("width", "mass", "mukhoti"))


def over_events(
    measure: Measure,
    probs: ArrayLike,
    labels: ArrayLike,
    classwise: bool,
    average: Average,
    weights: ArrayLike | None,
    ignore_index: int | None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    """Measure of the single event, or of every column (several labels, or ``classwise``)."""
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=not classwise)
    check_events_average(average, checked, classwise=classwise)
    mass = None if checked.weights is None else vector(checked.weights)
    values = torch.tensor(
        [measure(vector(p), vector(y), mass) for p, y in events(checked, classwise=classwise)],
        dtype=torch.float64,
        device=checked.scores.device,
    )
    return averaged(values, average)


def refuse_several(checked: Checked, what: str) -> None:
    if checked.task == "multilabel":
        raise InputError(
            f"`labels` must have shape (N,) for one {what}; pass one column: `probs[:, k], labels[:, k]`."
        )


def one_event(
    probs: ArrayLike, labels: ArrayLike, weights: ArrayLike | None, ignore_index: int | None = None
) -> tuple[Vector, Vector, Vector | None]:
    """Scores, outcomes and weights of the event (binary) or of the top label being right."""
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=True)
    refuse_several(checked, "event")
    scores, outcomes = next(events(checked))
    return vector(scores), vector(outcomes), None if checked.weights is None else vector(checked.weights)


def checked_events(checked: Checked, *, classwise: bool) -> Iterator[tuple[Vector, Vector, Vector | None]]:
    """Scores (clipped at 1), outcomes and weights of every event, without rows of weight zero."""
    mass = None if checked.weights is None else vector(checked.weights)
    for p, y in events(checked, classwise=classwise):
        scores, outcomes = np.minimum(vector(p), 1.0), vector(y)
        if mass is None:
            yield scores, outcomes, None
        else:
            yield scores[mass > 0], outcomes[mass > 0], mass[mass > 0]


def vector(values: Tensor) -> Vector:
    return values.to("cpu", torch.float64).contiguous().numpy()


def numbers(values: ArrayLike, name: str, *, infinite: bool = False) -> Vector:
    """Check numbers ``(N,)``: at least one, no NaN, and infinite only if allowed."""
    tensor = as_float_tensor(values, name=name).to("cpu", torch.float64)
    if tensor.ndim != 1 or len(tensor) == 0:
        raise InputError(
            f"`{name}` must have shape (N,) with at least one sample; got {tuple(tensor.shape)}."
        )
    if infinite:
        refuse_rows(tensor.isnan(), lambda row: f"`{name}` must not be NaN; row {row} is.")
    else:
        refuse_rows(
            ~tensor.isfinite(), lambda row: f"`{name}` must be finite; row {row} holds {tensor[row].item()}."
        )
    return tensor.contiguous().numpy()
