r"""A calibration test of an event that finds smooth errors anywhere on the scale.

Five statistics look at the residuals :math:`r_i = w_i (y_i - p_i)`. Four are quadratic forms
:math:`T^\top S^{-1} T` of the sums :math:`T = \sum_i h(p_i) r_i`:

- calibration in the large, :math:`h = 1`: predictions too high or too low;
- Spiegelhalter's, :math:`h = \bar p - p` with the mean under :math:`w_i^2 p_i (1 - p_i)`: too extreme or
  too timid, whatever the rate;
- two smooth tests, with the Legendre polynomials of the rank of :math:`p` up to the third and up to the
  sixth: errors of both signs, in the tails, or in the middle;
- a scan: the range of :math:`p` whose sum stands out most.

Their distributions under calibration are simulated: outcomes are drawn from the probabilities, with the noise
of clusters if there are any. The second moment of the result and the draws together is :math:`S`, so the
result counts as one more draw. Each statistic becomes a p-value by its large-sample distribution. The
weighted mean of :math:`p^{-1/2}` is taken, and its rank among the draws is the p-value of the test. So it
needs no correction for five looks, and no large sample.

References: Neyman, "Smooth test for goodness of fit", Skandinavisk Aktuarietidskrift 20, 1937. Spiegelhalter,
    "Probabilistic prediction in patient management and clinical trials", Statistics in Medicine 5, 1986.
    Westfall and Young, "Resampling-Based Multiple Testing", 1993. Vovk and Wang, "Combining p-values via
    averaging", Biometrika 107, 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector, indicator, signs
from calibrant.evaluation.resampling.null import DrawnSums
from calibrant.evaluation.resampling.resamples import SMALL_BLOCK, block_bounds
from calibrant.evaluation.result import Range

WEIGHTS = (1.0, 2.0, 1.0, 1.0, 0.5)  # of the statistics in the order above, chosen on planted errors
POWER = 0.5  # of 1/p in their mean: at 1 the smallest p-value alone would count nearly always
ORDERS = 3, 6  # of the polynomials
CELLS = 16  # of equal variance, of which the scan adds up neighbours
FEWEST_EVENTS = 3  # of variance in each: with fewer expected, a single event stands out
RANGES = 30  # effective number of independent ranges in the scan
CLUSTERS_EACH = 10  # for each of them, so that the signs of few clusters leave it something to find
NUM_GROUPS = 256  # of neighbours on the scale, whose residuals are summed
LEAST_SPREAD = 1e-9  # of a direction, as a share of the largest
SAME = 1e-9  # relative difference of statistics that are equal but for rounding
TINY = 1e-300
LEAST_SHARE = 0.05  # of the weight, in a range that is named


@dataclass(frozen=True)
class CalibrationTest:
    """Distances from calibration: first the measured one, then draws."""

    evidence: Vector  # log of the weighted mean of the p-values to the power of -1/2 ``(1 + R,)``

    @property
    def p_value(self) -> float:
        """Share of draws, the measured one included, that are at least as far off."""
        return float((self.evidence >= self.evidence[0] - SAME * max(self.evidence[0], 1.0)).mean())


def calibration_test(events: Events, num_draws: int, seed: tuple[int, ...]) -> CalibrationTest:
    """Test whether the probabilities of an event are true.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> stated = rng.random(500)
        >>> true, squared = (Events(stated, (rng.random(500) < p) * 1.0) for p in (stated, stated**2))
        >>> calibration_test(true, 199, (0,)).p_value > 0.05, calibration_test(squared, 199, (0,)).p_value
        (True, 0.005)
    """
    neighbours = _Neighbours.of(events)
    bases = neighbours.bases()
    if events.clusters is None:
        residuals = np.concatenate([neighbours.found[:, None], neighbours.draw(num_draws, seed)], axis=1)
        *forms, cells = (basis.T @ residuals for basis in bases)
    else:
        *forms, cells = (_of_clusters(neighbours, basis, num_draws, seed) for basis in bases)
    evidence = np.stack([*map(_quadratic, forms), _scan(cells)])
    shares = np.array(WEIGHTS) / sum(WEIGHTS)
    return CalibrationTest(np.logaddexp.reduce(POWER * evidence + np.log(shares)[:, None], axis=0))


def furthest_of(tests: Sequence[CalibrationTest]) -> CalibrationTest:
    """The test of the event furthest off, in the data and in each draw."""
    return CalibrationTest(np.max([each.evidence for each in tests], axis=0))


def furthest_range(events: Events) -> Range | None:
    """Range of at least 1/20 of the weight whose residuals stand out most; ``None`` if all is certain."""
    neighbours = _Neighbours.of(events)
    found, spread = neighbours.found, neighbours.variance
    if not spread.any():
        return None
    mass = neighbours.total(neighbours.mass)
    stated = neighbours.total(neighbours.mass * neighbours.stated)
    sums, variances, masses = (np.append(0.0, np.cumsum(each)) for each in (found, spread, mass))
    residual = np.abs(sums[None, :] - sums[:, None])
    variance = variances[None, :] - variances[:, None]
    enough = masses[None, :] - masses[:, None] >= LEAST_SHARE * masses[-1] * (1 - SAME)
    score = np.where(enough, residual / np.sqrt(np.maximum(variance, SAME * variances[-1])), 0.0)
    if score.max() <= SAME:
        return None
    start, stop = np.unravel_index(int(score.argmax()), score.shape)
    total, ends = masses[stop] - masses[start], np.append(neighbours.starts, len(neighbours.order))
    predicted = float(stated[start:stop].sum() / total)
    return Range(
        low=float(neighbours.stated[ends[start]]),
        high=float(neighbours.stated[ends[stop] - 1]),
        predicted=predicted,
        actual=predicted + float((sums[stop] - sums[start]) / total),
    )


def _scan(sums: Matrix) -> Vector:
    """Minus the logarithm of the p-value ``(R,)`` of the range of cells ``(m, R)`` that stands out most."""
    from scipy.special import log_ndtr

    until = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(sums, axis=0)])
    largest = np.zeros(sums.shape[1])
    for size in range(1, len(until)):
        squares = (until[size:] - until[:-size]) ** 2
        moment = squares.mean(axis=1, keepdims=True)
        largest = np.maximum(largest, (squares / np.maximum(moment, TINY)).max(axis=0))
    return np.maximum(-(log_ndtr(-np.sqrt(largest)) + np.log(2 * RANGES)), 0.0)


def _quadratic(sums: Matrix) -> Vector:
    """Minus the logarithm of the chi-squared tail ``(R,)`` of the squared length of sums ``(m, R)``.

    Lengths are in units of the sums' own second moment; directions in which nothing varies do not count.
    """
    from scipy.special import gammaincc

    moment = sums @ sums.T / sums.shape[1]
    scale = np.sqrt(np.diag(moment))
    scale[scale == 0] = 1.0
    values, vectors = np.linalg.eigh(moment / np.outer(scale, scale))
    kept = values > LEAST_SPREAD * max(float(values.max()), TINY)
    if not kept.any():
        return np.zeros(sums.shape[1])
    whitened = vectors[:, kept].T @ (sums / scale[:, None]) / np.sqrt(values[kept])[:, None]
    squares = np.einsum("mr,mr->r", whitened, whitened)
    return -np.log(np.maximum(gammaincc(kept.sum() / 2, squares / 2), TINY))


def _of_clusters(neighbours: _Neighbours, basis: Matrix, num_draws: int, seed: tuple[int, ...]) -> Matrix:
    """The sums found and drawn ``(m, 1 + R)``: residuals of whole clusters keep or change their signs.

    If an event is rare, nearly all residuals have one sign and understate the noise. So the noise in each
    direction is at least that of independent samples times the overall design effect.
    """
    totals = neighbours.of_clusters.T @ basis  # (K, m)
    independent = basis.T @ (basis * neighbours.variance[:, None])
    values, vectors = np.linalg.eigh(independent)
    kept = values > LEAST_SPREAD * max(float(values.max()), TINY)
    if not kept.any():
        return np.zeros((basis.shape[1], 1 + num_draws))
    totals = totals @ vectors[:, kept] / np.sqrt(values[kept])
    own, axes = np.linalg.eigh(totals.T @ totals)
    apart = totals - totals.mean(axis=0)
    effect = max(1.0, float((apart**2).sum(axis=0).mean()) * len(totals) / max(1, len(totals) - 1))
    lacking = np.sqrt(np.maximum(effect - own, 0.0))
    rng = np.random.default_rng((*seed, 7))
    drawn = totals.T @ signs(rng, len(totals), num_draws)
    drawn += axes @ (lacking[:, None] * rng.standard_normal((len(own), num_draws)))
    sums = np.concatenate([totals.sum(axis=0)[:, None], drawn], axis=1)
    return vectors[:, kept] @ (np.sqrt(values[kept])[:, None] * sums)


@dataclass(frozen=True)
class _Neighbours:
    """Samples in the order of their probabilities, and the groups of neighbours that are summed."""

    events: Events
    order: Indices
    starts: Indices  # of the groups, among the samples in order

    @classmethod
    def of(cls, events: Events) -> _Neighbours:
        """Groups of about equal weight; equal probabilities share one."""
        order = np.argsort(events.places, kind="stable")
        mass = events.mass[order]
        order, mass = order[mass > 0], mass[mass > 0]
        ranked = events.places[order]
        first = np.append(True, np.diff(ranked) > 0)
        tie = np.cumsum(first) - 1
        middle = np.cumsum(np.bincount(tie, mass)) - np.bincount(tie, mass) / 2
        group = np.minimum((middle / mass.sum() * NUM_GROUPS).astype(np.int64), NUM_GROUPS - 1)[tie]
        return cls(events, order, np.flatnonzero(np.append(True, np.diff(group) > 0)))

    @cached_property
    def mass(self) -> Vector:
        return self.events.mass[self.order]

    @cached_property
    def stated(self) -> Vector:
        return self.events.confidences[self.order]

    def total(self, values: Matrix) -> Matrix:
        """Sums of ordered values over the groups."""
        return np.add.reduceat(values, self.starts, axis=0)

    @cached_property
    def found(self) -> Vector:
        """The residual of each group ``(G,)``."""
        return self.total(self.mass * (self.events.outcomes[self.order] - self.stated))

    @cached_property
    def variance(self) -> Vector:
        return self.total(self.events.squared_mass[self.order] * self.stated * (1 - self.stated))

    def bases(self) -> tuple[Matrix, ...]:
        """Weights ``(G, m)`` of the groups' residuals in the sums of each statistic."""
        mass = self.total(self.mass)
        mean = self.total(self.mass * self.stated) / mass
        spread = np.average(mean, weights=self.variance if self.variance.any() else mass) - mean
        spread[np.abs(spread) <= LEAST_SPREAD * mean] = 0.0  # rounding, if all are equal
        rank = 2 * (np.cumsum(mass) - mass / 2) / mass.sum() - 1
        orders, num_cells = ORDERS, CELLS
        until = np.cumsum(self.variance)
        if until[-1] > 0:  # in units of one sample
            one = until[-1] / float((self.mass * self.stated * (1 - self.stated)).sum())
            num_cells = int(np.clip(until[-1] / one**2 / FEWEST_EVENTS, 1, CELLS))
        if self.events.clusters is not None:
            most = (int(self.events.clusters.max()) + 1) // CLUSTERS_EACH
            orders = tuple(min(order, most) for order in ORDERS)
            num_cells = min(num_cells, max(1, most))
        share = (until - self.variance / 2) / (until[-1] or 1.0)
        cells = np.eye(num_cells)[np.minimum((share * num_cells).astype(np.int64), num_cells - 1)]
        smooth = (np.polynomial.legendre.legvander(rank, order) for order in orders)
        return np.ones((len(mean), 1)), spread[:, None], *smooth, cells

    def draw(self, num_draws: int, seed: tuple[int, ...]) -> Matrix:
        """Residuals of the groups ``(G, R)`` under calibration."""
        rng = np.random.Generator(np.random.SFC64(seed))
        if self.events.counted:
            spread = np.sqrt(self.variance)[:, None]
            return spread * rng.standard_normal((len(spread), num_draws))
        sums = DrawnSums(self.stated, self.mass, self.starts)  # binomial counts among those of equal weight
        drawn = np.empty((len(self.starts), num_draws))
        for start, stop in block_bounds(num_draws, SMALL_BLOCK // sums.size):
            drawn[:, start:stop] = sums.draw(rng, stop - start)
        return drawn - self.total(self.mass * self.stated)[:, None]

    @cached_property
    def of_clusters(self) -> Any:
        """The residual of each group and cluster, sparse ``(G, K)``."""
        codes = self.events.codes[self.order]
        group = np.zeros(len(self.order), np.int64)
        group[self.starts[1:]] = 1
        residuals = indicator(codes, self.mass * (self.events.outcomes[self.order] - self.stated))
        return (indicator(np.cumsum(group)).T @ residuals).tocsr()
