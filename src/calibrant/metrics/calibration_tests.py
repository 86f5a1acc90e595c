r"""Calibration tests without bins: Kolmogorov-Smirnov and Kuiper, and Spiegelhalter's.

The limit of the cumulative differences is a Brownian motion B on [0, 1]. The laws of :math:`\sup |B|` and of
:math:`\max B - \min B` each have two series: by reflection, which converges fast for large x, and its Poisson
dual, fast for small x. Where they meet five terms of either give full precision (Feller, "The Asymptotic
Distribution of the Range of Sums of Independent Random Variables", Annals of Mathematical Statistics 22,
1951).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_at_least, check_choice, check_probs
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import Vector, checked_events

__all__ = [
    "CumulativeTest",
    "SpiegelhalterTest",
    "kolmogorov_smirnov_test",
    "kuiper_test",
    "spiegelhalter_test",
]

PValue: TypeAlias = Literal["auto", "asymptotic", "simulation"]

ENOUGH_STEPS = 1000  # distinct probabilities above which the path counts as a Brownian motion
_ROUNDING = 1e-12  # equal statistics, apart from rounding, count as at least as large
_BLOCK = 1 << 20  # numbers drawn at a time
_MEET, _TERMS = 1.8, 12  # of series


@dataclass(frozen=True)
class CumulativeTest:
    """A statistic of the cumulative differences, and its p-value under calibration."""

    statistic: Float[Tensor, ""] | Float[Tensor, " C"]
    scaled: Float[Tensor, ""] | Float[Tensor, " C"]
    p_value: Float[Tensor, ""] | Float[Tensor, " C"]


@suggesting()
def kolmogorov_smirnov_test(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    classwise: bool = False,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    p_value: PValue = "auto",
    num_draws: int = 9999,
    seed: int = 0,
) -> CumulativeTest:
    r"""Largest cumulative difference between outcomes and probabilities: the Kolmogorov-Smirnov statistic.

    .. math:: D = \max_t \Bigl| \frac{1}{N} \sum_{i : p_i \le t} (y_i - p_i) \Bigr| , \qquad
              \text{scaled: } D / \sigma , \quad \sigma^2 = \frac{1}{N^2} \sum_i p_i (1 - p_i)

    No bins and no bandwidth. If the probabilities are true, the cumulative sums over :math:`\sigma` tend to a
    Brownian motion, and :math:`D / \sigma` to the supremum of its absolute value. Equal probabilities are
    one step, so the order of the rows never matters. With weights, N is their sum and
    :math:`\sigma^2 = \sum_i w_i^2 p_i (1 - p_i) / N^2`.

    Classes ``(N, C)`` with labels ``(N,)``: the event is that the top label is right; with ``classwise=True``
    each class against all others. An event ``(N,)``: itself. Several labels per sample: every column.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        classwise: Test every class, not only the top label.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.
        p_value: ``"asymptotic"`` for the limit law; ``"simulation"`` for ``num_draws`` draws of the outcomes
            from these very probabilities, exact for any size; ``"auto"``: the limit law from 1000 different
            probabilities on, draws below.
        num_draws: Draws of a simulation; its p-value is :math:`(1 + k)/(1 + \text{draws})`.
        seed: Seed of the draws.

    Returns:
        ``statistic`` in ``[0, 1]``, ``scaled`` and ``p_value`` in ``[0, 1]``: float64 scalars, or of shape
        ``(C,)`` for several labels or ``classwise``, where each is a test of its own (correct for their
        number: the smallest of C p-values times C). Where all probabilities are 0 or 1, chance plays no
        part: ``scaled`` is 0 with p-value 1, or infinite where one was wrong.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note:
        At most the calibration error of any binning into intervals, and half of the Kuiper statistic at
        least. The limit law is slightly conservative: a path of few steps strays less than a Brownian motion.
        O(N log N) time. Not differentiable.

    References:
        Gupta, Rahimi, Ajanthan, Mensink, Sminchisescu and Hartley, "Calibration of Neural Networks using
        Splines", ICLR 2021. Arrieta-Ibarra, Gujral, Tannen, Tygert and Xu, "Metrics of Calibration for
        Probabilistic Predictions", Journal of Machine Learning Research 23, 2022.

    Example:
        >>> import torch
        >>> found = kolmogorov_smirnov_test(torch.full((100,), 0.75), torch.arange(100) % 2)
        >>> round(found.statistic.item(), 6), round(found.scaled.item(), 3)
        (0.25, 5.774)
        >>> found.p_value.item() < 0.001
        True
    """
    return _test(
        _excursion, excursion_tail, probs, labels, classwise, weights, ignore_index, p_value, num_draws, seed
    )


@suggesting()
def kuiper_test(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    classwise: bool = False,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
    p_value: PValue = "auto",
    num_draws: int = 9999,
    seed: int = 0,
) -> CumulativeTest:
    r"""Largest difference between outcomes and probabilities over any interval: the Kuiper statistic.

    .. math:: V = \max_{s \le t} \Bigl| \frac{1}{N} \sum_{i : s < p_i \le t} (y_i - p_i) \Bigr|

    The range of the cumulative sums of :func:`kolmogorov_smirnov_test`, where the sums over everything and
    :math:`\sigma` are explained. It sees an error in the middle of the scale, or two that cancel, as well as
    one at its ends. Over :math:`\sigma` it tends to the range of a Brownian motion.

    ``probs`` are probabilities of shape ``(N, C)`` or ``(N,)``; ``labels`` are classes ``(N,)``, or outcomes
    in {0, 1} of the shape of ``probs``; ``weights`` have shape ``(N,)`` and are not negative; labels
    ``ignore_index`` are left out. All other arguments and the errors are as there.

    Returns:
        ``statistic`` in ``[0, 1]``, ``scaled`` and ``p_value`` as in :func:`kolmogorov_smirnov_test`.

    Note:
        Between the Kolmogorov-Smirnov statistic and twice that, and at most the calibration error of bins
        that end where the sums are highest and lowest. O(N log N) time. Not differentiable.

    References:
        Arrieta-Ibarra, Gujral, Tannen, Tygert and Xu, "Metrics of Calibration for Probabilistic Predictions",
        Journal of Machine Learning Research 23, 2022.

    Example:
        >>> probs, labels = [0.25, 0.25, 0.75, 0.75], [1, 1, 0, 0]  # errors that cancel
        >>> kuiper_test(probs, labels).statistic.item()
        0.375
    """
    return _test(
        _range, range_tail, probs, labels, classwise, weights, ignore_index, p_value, num_draws, seed
    )


def _test(
    statistic: Callable[[Vector], Vector],
    tail: Callable[[float], float],
    probs: ArrayLike,
    labels: ArrayLike,
    classwise: bool,
    weights: ArrayLike | None,
    ignore_index: int | None,
    p_value: PValue,
    num_draws: int,
    seed: int,
) -> CumulativeTest:
    """Test by one number of paths ``(..., n)`` with the given tail of its limit law."""
    check_choice("p_value", p_value, ("auto", "asymptotic", "simulation"))
    check_at_least("num_draws", num_draws, 1)
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=not classwise)
    each: list[tuple[float, float, float]] = []
    for scores, outcomes, mass in checked_events(checked, classwise=classwise):
        shares = np.ones(len(scores)) if mass is None else mass
        shares = shares / shares.sum()
        points, place = np.unique(
            scores, return_inverse=True
        )  # merged, so that the order of tied rows is irrelevant
        jumps = np.bincount(place, shares * (outcomes - scores), len(points))
        found = float(statistic(np.cumsum(jumps, dtype=np.float64)))
        spread = math.sqrt(float(shares**2 @ (scores * (1 - scores))))  # of the end of the path
        simulate = p_value == "simulation" or (p_value == "auto" and len(points) < ENOUGH_STEPS)
        if spread == 0:  # certainties: all true, or at least one false
            each.append((found, 0.0, 1.0) if found == 0 else (found, float("inf"), 0.0))
            continue
        if simulate:
            drawn = np.concatenate([*map(statistic, _paths(points, place, shares, num_draws, seed))])
            p = (1 + int((drawn >= found - _ROUNDING).sum())) / (1 + num_draws)
        else:
            p = tail(found / spread)
        each.append((found, found / spread, p))
    values = torch.tensor(each, dtype=torch.float64, device=checked.scores.device).t()
    one = not classwise and checked.task != "multilabel"
    return CumulativeTest(*(value[0] if one else value for value in values))


def _paths(
    points: Vector, place: NDArray[np.int64], shares: Vector, num_draws: int, seed: int
) -> Iterator[Vector]:
    """Blocks of paths ``(draws, n)`` with every outcome drawn from its score."""
    rng = np.random.default_rng(seed)
    levels, level = np.unique(shares, return_inverse=True)
    kinds, counts = np.unique(place * len(levels) + level, return_counts=True)  # of equal score and weight
    mass, at = levels[kinds % len(levels)], kinds // len(levels)
    probs = points[at]
    starts = np.flatnonzero(np.diff(at, prepend=-1))  # of each score
    step = max(1, _BLOCK // len(counts))
    for start in range(0, num_draws, step):
        size = (min(step, num_draws - start), len(counts))
        jumps = mass * (rng.binomial(counts, probs, size=size) - counts * probs)
        yield np.cumsum(np.add.reduceat(jumps, starts, axis=1), axis=1)


def _excursion(paths: Vector) -> Vector:
    return np.abs(paths).max(axis=-1)


def _range(paths: Vector) -> Vector:
    return np.maximum(paths.max(axis=-1), 0) - np.minimum(paths.min(axis=-1), 0)


def excursion_tail(x: float) -> float:
    r""":math:`P(\sup |B| > x)`.

    Example:
        >>> round(excursion_tail(2.241402727), 9)
        0.05
    """
    if x <= 0:
        return 1.0
    if x >= _MEET:
        return sum((-1) ** k * 4 * _normal_tail((2 * k + 1) * x) for k in range(_TERMS))
    odd = (2 * k + 1 for k in range(_TERMS))
    inside = sum((-1) ** (m // 2) / m * math.exp(-((m * math.pi / x) ** 2) / 8) for m in odd)
    return min(1.0, 1 - 4 / math.pi * inside)


def range_tail(x: float) -> float:
    r""":math:`P(\max B - \min B > x)`.

    Example:
        >>> round(range_tail(2.497672161), 9)
        0.05
    """
    if x <= 0:
        return 1.0
    if x >= _MEET:
        return sum((-1) ** (k - 1) * 8 * k * _normal_tail(k * x) for k in range(1, 2 * _TERMS))
    inside = 0.0
    for k in range(_TERMS):
        c = math.pi * (2 * k + 1)
        inside += 8 * (1 / x**2 + 1 / c**2) * math.exp(-((c / x) ** 2) / 2)
    return min(1.0, 1 - inside)


def _normal_tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2


@dataclass(frozen=True)
class SpiegelhalterTest:
    """A standard normal statistic and its two-sided p-value."""

    statistic: Float[Tensor, ""] | Float[Tensor, " C"]
    p_value: Float[Tensor, ""] | Float[Tensor, " C"]


@suggesting()
def spiegelhalter_test(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    classwise: bool = False,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> SpiegelhalterTest:
    r"""Brier score minus its expectation under the predicted probabilities, in standard deviations.

    .. math:: z = \frac{\sum_i w_i (y_i - p_i)(1 - 2 p_i)}
                       {\sqrt{\sum_i w_i^2 (1 - 2 p_i)^2 p_i (1 - p_i)}}

    Standard normal if the probabilities are true. Above 0 the score is worse than they promise
    (over-confident), below 0 better. Classes ``(N, C)``: the event is that the top label is right; with
    ``classwise=True`` each class against all others. An event ``(N,)``: itself. Several labels per sample:
    every column.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        classwise: Test every class, not only the top label.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``statistic`` and two-sided ``p_value``: float64 scalars, or of shape ``(C,)`` for several labels or
        ``classwise``. Where all probabilities are 0, 1/2 or 1 there is nothing to vary: 0 with p-value 1, or
        infinite with p-value 0 where a certainty was wrong.

    Raises:
        InputError: If shapes disagree, or a value is not finite or out of range.

    Note:
        One direction only: blind to probabilities that are too high as often as too low where 1 - 2 p has
        the same sign, and to those near 1/2. O(N) time. Not differentiable.

    References:
        Spiegelhalter, "Probabilistic Prediction in Patient Management and Clinical Trials", Statistics in
        Medicine 5, 1986.

    Example:
        >>> import torch
        >>> found = spiegelhalter_test(torch.full((16,), 0.8), torch.tensor([0, 1] * 8))
        >>> round(found.statistic.item(), 6), round(found.p_value.item(), 4)
        (3.0, 0.0027)
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    each: list[tuple[float, float]] = []
    for scores, outcomes, mass in checked_events(checked, classwise=classwise):
        slopes = (1 - 2 * scores) if mass is None else mass * (1 - 2 * scores)
        excess = float(slopes @ (outcomes - scores))
        spread = math.sqrt(float(slopes**2 @ (scores * (1 - scores))))
        certain = math.copysign(math.inf, excess) if excess else 0.0
        z = excess / spread if spread > 0 else certain
        each.append((z, math.erfc(abs(z) / math.sqrt(2))))
    values = torch.tensor(each, dtype=torch.float64, device=checked.scores.device).t()
    one = not classwise and checked.task != "multilabel"
    return SpiegelhalterTest(*(value[0] if one else value for value in values))
