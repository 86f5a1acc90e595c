"""One measure of an event at a time: which events a table of probabilities holds, and the mean over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.checks import check_choice, check_probs
from calibrant._math.errors import InputError
from calibrant.metrics._common import check_average
from calibrant.metrics._judged import judged

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from calibrant._math.arrays import ArrayLike
    from calibrant._math.checks import Checked
    from calibrant.metrics._common import Average

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
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    """The measure of the one event there is, or of every column (several labels, or ``classwise``)."""
    checked = check_probs(probs, labels, weights, find_top=not classwise)
    if classwise:
        check_choice("average", average, ("macro", "none"))
    else:
        check_average(average, checked)
    mass = None if checked.weights is None else _vector(checked.weights)
    values = torch.tensor(
        [measure(scores, outcomes, mass) for scores, outcomes in _events(checked, classwise)],
        dtype=torch.float64,
        device=checked.scores.device,
    )
    return values if average == "none" else values.mean()


def one_event(
    probs: ArrayLike, labels: ArrayLike, weights: ArrayLike | None
) -> tuple[Vector, Vector, Vector | None]:
    """Scores, outcomes and weights of the event (binary) or of the top label being right."""
    checked = check_probs(probs, labels, weights, find_top=True)
    if checked.task == "multilabel":
        raise InputError(
            "`labels` must have shape (N,) for one event; pass one column: `probs[:, k], labels[:, k]`."
        )
    scores, outcomes = next(_events(checked, classwise=False))
    return scores, outcomes, None if checked.weights is None else _vector(checked.weights)


def checked_events(checked: Checked, *, classwise: bool) -> Iterator[tuple[Vector, Vector, Vector | None]]:
    """Scores (cut at 1), outcomes and weights of every event; rows without weight are left out."""
    mass = None if checked.weights is None else _vector(checked.weights)
    for scores, outcomes in _events(checked, classwise):
        scores = np.minimum(scores, 1.0)
        if mass is None:
            yield scores, outcomes, None
        else:
            yield scores[mass > 0], outcomes[mass > 0], mass[mass > 0]


def _events(checked: Checked, classwise: bool) -> Iterator[tuple[Vector, Vector]]:
    """Scores and outcomes of every event to be measured."""
    for scores, outcomes in judged(checked, classwise=classwise):
        yield _vector(scores), _vector(outcomes)


def _vector(values: Tensor) -> Vector:
    """The same numbers as a contiguous float64 array."""
    return values.to("cpu", torch.float64).contiguous().numpy()
