"""Every class at once under calibration: labels drawn from whole rows of probabilities.

The classes of a row exclude each other, so their errors are dependent; separate draws of each class would
miss that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from calibrant.evaluation.resampling.event_cells import ResidualSums
from calibrant.evaluation.resampling.events import Indices, Matrix, Vector
from calibrant.evaluation.resampling.null import ROUNDING
from calibrant.evaluation.resampling.resamples import SMALL_BLOCK, block_bounds

LEAST_EXPECTED = 10  # occurrences of a class whose slope is looked at
LIKELY_EXCEPTION = 0.5  # from which on every label is drawn
SPARE = 4.0  # standard deviations of their number
MOST_SUMS = 1 << 22  # of drawn classes and bins held at once: 32 MiB


@dataclass(frozen=True, kw_only=True)
class ClassRowsBlock:
    """Some rows ``(n, C)``: probabilities to draw from, those stated with their bins, and masses."""

    probs: Matrix
    stated: Matrix
    bins: Indices
    mass: Vector

    def part(self, rows: slice | NDArray[np.bool_]) -> ClassRowsBlock:
        return ClassRowsBlock(
            probs=self.probs[rows], stated=self.stated[rows], bins=self.bins[rows], mass=self.mass[rows]
        )


@dataclass(frozen=True, kw_only=True)
class ClassNull:
    """Distances of the classes' average probabilities from their rates, with their null distribution."""

    scores: Vector  # distance ``(C,)``, positive if a class is too frequent; see `class_scores`
    deviations: Vector  # standard deviation ``(C,)`` of the rates
    farthest: Vector | None = None  # largest distance over the classes per draw ``(R,)``; None: not drawn
    steepest: tuple[float, Vector] | None = None  # largest slope in standard errors, and per draw ``(R,)``
    errors: Vector | None = None  # class-wise error per draw ``(R,)``; None: not drawn
    cells: ResidualSums | None = None  # the filled bins of all classes
    noise: Matrix | None = None  # residual sums ``(R', M)`` of the first draws over these bins

    def adjusted_p_values(self) -> Vector:
        """Share of draws with any class as far off; without draws, Bonferroni's normal p-values."""
        if self.farthest is None:
            tails = [2 * NormalDist().cdf(-abs(score)) for score in self.scores.tolist()]
            return np.minimum(np.array(tails) * len(tails), 1.0)
        ranked = np.sort(self.farthest)
        reached = len(ranked) - np.searchsorted(ranked, np.abs(self.scores) - ROUNDING)
        return (1 + reached) / (1 + len(ranked))

    def noise_floors(self, level: float) -> Vector:
        """Distance of each class's probability from its rate that no class exceeds at this level."""
        if self.farthest is None:
            furthest = NormalDist().inv_cdf(1 - (1 - level) / (2 * len(self.scores)))
        else:
            furthest = float(np.quantile(self.farthest, level))
        return furthest * self.deviations


def draw_labels(
    blocks: Callable[[], Iterator[ClassRowsBlock]],
    filled: NDArray[np.bool_],
    classes: Indices,
    *,
    num_draws: int,
    seed: tuple[int, ...],
) -> Iterator[Matrix]:
    """Drawn counts ``(M, r)`` in each filled bin of each class, some draws at a time.

    M counts the ``filled`` bins of classes ``(C, B)``. The order in which the ``classes`` ``(C,)`` are drawn
    must not depend on their numbers. The rows are read once per 32 MiB of results.
    """
    rng = np.random.Generator(np.random.SFC64(seed))
    places = np.cumsum(filled).reshape(filled.shape) - 1  # a bin without weight adds nothing to any other
    num_filled = int(filled.sum())
    for first, last in block_bounds(num_draws, MOST_SUMS // num_filled):
        sums = np.zeros((num_filled, last - first))
        usual = np.zeros(num_filled)
        for rows in blocks():
            for start, stop in block_bounds(len(rows.mass), SMALL_BLOCK // (last - first)):
                _add(rows.part(slice(start, stop)), places, classes, rng, usual, sums)
        sums += usual[:, None]
        yield sums


def _add(
    rows: ClassRowsBlock,
    places: Indices,
    classes: Indices,
    rng: np.random.Generator,
    usual: Vector,
    sums: Matrix,
) -> None:
    from calibrant.evaluation.resampling import kernels  # compiled

    ends = np.empty(len(classes))
    largest = rows.probs.max(axis=1)
    exceptions = np.maximum(1 - largest / rows.probs.sum(axis=1), 0.0)
    sure = exceptions < LIKELY_EXCEPTION
    if not sure.all():
        these = rows.part(~sure)
        uniform = rng.random((len(these.mass), sums.shape[1]), dtype=np.float32)
        given = these.probs, these.bins, places, these.mass, classes
        cells, stack = np.empty((len(classes), 2), np.int64), np.empty(len(classes), np.int64)
        kernels.add_drawn_labels(uniform, *given, ends, cells, stack, sums)
    if not sure.any():
        return
    these, place = rows.part(sure), np.zeros(2, np.int64)
    given = these.probs, these.bins, places, these.mass, classes
    expected = sums.shape[1] * exceptions[sure] + 1
    while place[0] < len(these.mass):
        wanted = expected[place[0] :].sum()
        size = max(1, int(wanted + SPARE * np.sqrt(wanted)))
        steps = rng.standard_exponential(size, dtype=np.float32)
        uniform = rng.random(size, dtype=np.float32)
        kernels.add_exceptions(place, steps, uniform, *given, ends, usual, sums)


def class_scores(occurs: Matrix, expected: Vector, variance: Vector) -> Matrix:
    r"""Distances of counts ``(C, ...)`` from their expectations ``(C,)``, in standard errors.

    The signed root of :math:`2 (o \log(o/e) - o + e) \, e / v`, with the variance v. For frequent classes
    this is nearly :math:`(o - e) / \sqrt v`. For rare ones that ratio is far too large, and the root still
    nearly normal: one occurrence where .01 are expected is 2.7 standard errors off, not 10. So the largest
    distance over many classes is not that of the rarest.

    Example:
        >>> class_scores(np.array([1.0]), np.array([0.01]), np.array([0.01])).round(1)
        array([2.7])
    """
    shape = (len(expected),) + (1,) * (occurs.ndim - 1)
    e, v = expected.reshape(shape), variance.reshape(shape)
    ratio = np.divide(occurs, e, out=np.ones_like(occurs), where=(occurs > 0) & (e > 0))
    deviance = np.maximum(2 * (occurs * np.log(ratio) - occurs + e), 0.0)
    certain = np.where(np.abs(occurs - e) > ROUNDING * np.maximum(e, 1.0), np.inf, 0.0)
    scale = np.divide(e, v, out=np.zeros_like(v), where=v > 0)
    return np.sign(occurs - e) * np.where(v > 0, np.sqrt(deviance * scale), certain)


def farthest_scores(occurs: Matrix, expected: Vector, variance: Vector) -> Vector:
    """The largest distance ``(R,)`` of any class in each draw ``(C, R)``, by `class_scores`.

    Most of many classes do not occur in a draw, and their distance is then always the same.
    """
    found = occurs != 0
    classes, draws = np.nonzero(found)
    none = np.abs(class_scores(np.zeros_like(expected), expected, variance))
    farthest = np.where(found, 0.0, none[:, None]).max(axis=0)
    scores = class_scores(occurs[classes, draws], expected[classes], variance[classes])
    np.maximum.at(farthest, draws, np.abs(scores))
    return farthest


def class_tilts(variance: Vector, stated: Vector, starts: Indices, expected: Vector) -> Vector:
    """Weight of each bin's residual ``(M,)`` in the slope of its class, in standard errors.

    Rare classes get 0, as their slopes are far from normal. ``starts`` are the first bins of the classes, and
    ``expected`` are the expected counts ``(C,)``.
    """
    owner = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(stated))))
    total = np.add.reduceat(variance, starts)
    middle = np.add.reduceat(variance * stated, starts) / np.where(total > 0, total, 1.0)
    apart = stated - middle[owner]
    spread = np.sqrt(np.add.reduceat(variance * apart**2, starts))
    known = (spread > 0) & (expected >= LEAST_EXPECTED)
    return apart * np.divide(1.0, spread, out=np.zeros_like(spread), where=known)[owner]


def joint_p_value(tests: list[tuple[float, Vector]]) -> float:
    """One p-value for several statistics of the same draws ``(R,)``; large ones count against the model.

    The smallest share of draws that reach an observed value is ranked among those of the draws themselves, so
    correlated statistics cost nothing extra.

    References:
        Westfall and Young, "Resampling-Based Multiple Testing", 1993.

    Example:
        >>> draws = np.arange(99.0)
        >>> joint_p_value([(98.0, draws)]), joint_p_value([(98.0, draws), (98.0, draws)])
        (0.02, 0.02)
    """
    least = np.full(1 + len(tests[0][1]), np.inf)  # the data count as one of the draws
    for found, draws in tests:
        pooled = np.append(found, draws)
        least = np.minimum(least, len(pooled) - np.searchsorted(np.sort(pooled), pooled - ROUNDING))
    return float((least <= least[0]).mean())
