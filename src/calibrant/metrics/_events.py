"""One measure of an event at a time: which events a table of probabilities holds, and the mean over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, check_probs
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, averaged, check_events_average, events

Vector: TypeAlias = NDArray[np.float64]
Measure: TypeAlias = Callable[[Vector, Vector, Vector | None], float]  # of scores, outcomes and weights


def over_events(
    measure: Measure,
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    classwise: bool,
    average: Average,
    weights: ArrayLike | None,
    ignore_index: int | None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    """The measure of the one event there is, or of every column (several labels, or ``classwise``)."""
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=not classwise)
    check_events_average(average, checked, classwise=classwise)
    mass = None if checked.weights is None else vector(checked.weights)
    values = torch.tensor(
        [measure(scores, outcomes, mass) for scores, outcomes in _events(checked, classwise)],
        dtype=torch.float64,
        device=checked.scores.device,
    )
    return averaged(values, average)


def one_event(
    probs: ArrayLike, labels: ArrayLike, weights: ArrayLike | None, ignore_index: int | None = None
) -> tuple[Vector, Vector, Vector | None]:
    """Scores, outcomes and weights of the event (binary) or of the top label being right."""
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=True)
    if checked.task == "multilabel":
        raise InputError(
            "`labels` must have shape (N,) for one event; pass one column: `probs[:, k], labels[:, k]`."
        )
    scores, outcomes = next(_events(checked, classwise=False))
    return scores, outcomes, None if checked.weights is None else vector(checked.weights)


def checked_events(checked: Checked, *, classwise: bool) -> Iterator[tuple[Vector, Vector, Vector | None]]:
    """Scores (cut at 1), outcomes and weights of every event; rows without weight are left out."""
    mass = None if checked.weights is None else vector(checked.weights)
    for scores, outcomes in _events(checked, classwise):
        scores = np.minimum(scores, 1.0)
        if mass is None:
            yield scores, outcomes, None
        else:
            yield scores[mass > 0], outcomes[mass > 0], mass[mass > 0]


def _events(checked: Checked, classwise: bool) -> Iterator[tuple[Vector, Vector]]:
    for scores, outcomes in events(checked, classwise=classwise):
        yield vector(scores), vector(outcomes)


def vector(values: Tensor) -> Vector:
    """The same numbers as a contiguous float64 array."""
    return values.to("cpu", torch.float64).contiguous().numpy()
