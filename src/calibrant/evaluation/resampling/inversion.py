r"""Confidence intervals for calibration errors by inverting a test: the true errors that it does not reject.

A calibration error is a sum of absolute values, so noise inflates it, more so for a small true error.
Bootstrap intervals nearly always miss a true error of zero. Here a test is inverted instead. Bins get gaps
(actual minus stated rate), from none through the measured ones to larger ones. Each set of gaps has an error
e. Noise is added to its residual sums, and e belongs to the interval if the measured error lies between the
quantiles of the noisy errors.

**Noise** comes from the draws of the null distribution. A gap changes the variance: in each cell the draws
are shrunk, or normal noise is added, to match it. In bins with few expected events their number is drawn
instead, from the uniform numbers of the draws under calibration (`sparse_noise`). So without gaps the test is
the one against perfect calibration.

**Gaps** with the same error can be few and large or many and small; many small ones hide in the noise, few
large ones do not. The data tell only the large ones apart. So each end is taken where it is hardest to
exclude: the lower one with the gaps that stand out unchanged and all others removed (firm thresholds),
the upper one with the excess of each gap over two standard errors. On top of that, every bin gets the amount
that noise can conceal, in proportion to its standard error. In a smooth error gaps of both signs cancel, so
that small ones of one sign hide behind noise of both. For such errors each end is also sought among gaps of
one sign, in proportion to the standard errors. The largest gap of any bin is raised most by noise if all bins
have gaps of one size, so its lower end is also sought there. Its upper end is that of the bin that may have
the largest one (`largest_gap`), since one bin with few samples hides any gap. The bias-corrected estimate is
the error of the gaps, soft-thresholded or widened, whose noisy error exceeds the measured one half of the
time.

**Tails.** No error is below zero, so at zero only a large one is a surprise, with the whole error level on
that side; far from zero the level is shared out equally. Between, the tails are those of Feldman and Cousins
for a normal mean that is not negative. So the interval leaves out zero exactly if the p-value against
perfect calibration is below the error level.

References:
    Feldman and Cousins, "Unified approach to the classical statistical analysis of small signals", Physical
    Review D 57, 1998. Gao and Bruce, "WaveShrink with firm shrinkage", Statistica Sinica 7, 1997.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.jit import njit
from calibrant.evaluation.resampling.event_cells import ResidualSums, clustered_sums
from calibrant.evaluation.resampling.events import Indices, Matrix, Vector
from calibrant.evaluation.resampling.intervals import beyond_chance
from calibrant.evaluation.resampling.null import ROUNDING
from calibrant.evaluation.result import Estimate

STEPS = 8  # of each search, once the place lies between two
FIRST_STEP, NARROW = 1.0, 0.02  # standard errors
CLOSE, CLOSE_TO_MEDIAN = (
    0.15,
    0.05,
)  # normal quantiles from which a line finds the root; 400 draws resolve 0.13, 0.06
STRAIGHT = 1.0  # normal quantiles: beyond these a line may bend, or end without draws
FURTHER = 1.2  # than a straight line would lead, to get beyond
LEAST_SHARE = 1e-4
HALVINGS = 24  # of searches without draws
# The study `coverage` fixed the following: other values change its measured coverage.
LESS_FAR = 0.9  # of a gap, for its standard error: that of a bin without events is not zero
FARTHEST = 8.0  # standard errors by which gaps are widened at most
STANDS_OUT = 2.0  # standard errors
_NORMAL = NormalDist()
_NOTHING = np.empty((0, 0), np.float32)
Family: TypeAlias = Callable[[float], Vector]  # gaps ``(F,)`` that grow with the place


@dataclass(frozen=True)
class Inverted:
    """The interval, the bias-corrected estimate, and the p-value against an error of zero."""

    low: float
    high: float
    without_chance: float
    p_value: float
    least_p: float  # of an error that no draw reaches

    def estimate(self, value: float, bounds: tuple[float, float]) -> Estimate:
        low, high = bounds
        return Estimate(
            value=value,
            low=max(low, self.low),
            high=min(high, self.high),
            without_chance=min(high, self.without_chance),
        )


def invert(
    cells: ResidualSums, noise: Matrix, level: float, *, real: bool | None = None, seed: int = 0
) -> Inverted:
    """Interval of an error from calibrated noise ``(R, M)``; ``real`` if it is known to exceed noise."""
    return _Search(cells, noise, level, seed).result(real)


class _Search:
    def __init__(self, cells: ResidualSums, noise: Matrix, level: float, seed: int) -> None:
        self._cells = cells
        self._noise = noise
        self._level = level
        self._seed = seed
        self._sparse = SparseNoise(cells, noise, seed)
        self._observed = cells.observed
        self._sizes = np.abs(cells.gaps)
        self._signs = np.where(cells.gaps < 0, -1.0, 1.0)
        self._errors = cells.bin_errors(LESS_FAR * cells.gaps)
        self._under_chance = cells.variances(np.zeros_like(cells.gaps))
        scores = np.divide(self._sizes, self._errors, out=np.zeros_like(self._sizes), where=self._errors > 0)
        self._scores = scores
        self._nothing = -float(scores.max(initial=0.0))  # the place at which all gaps are gone
        drawn = cells.error(noise)
        self._median = float(np.median(drawn))
        self._none = 1 / (1 + len(drawn))  # the share if no draw counts
        self._without_gaps = self._shares(drawn)
        self._p_value = self._without_gaps[0]

    def result(self, real: bool | None) -> Inverted:
        if real is None:
            real = beyond_chance(self._p_value, self._level)
        middle = self._middle() if self._p_value < 0.5 else 0.0
        low = self._low() if real else 0.0
        high = max(self._high(), low, middle)
        return Inverted(low, high, max(low, middle), self._p_value, self._none)

    def _middle(self) -> float:
        """Median-unbiased error along scaled gaps."""

        def excess(at: float) -> float:
            return _z(self._above(self._soft(at))[0])

        at_zero = excess(0.0)
        if at_zero < 0:
            place = rising_root(excess, 0.0, FARTHEST, at_start=at_zero, close=CLOSE_TO_MEDIAN)
        else:
            place = _between(excess, (0.0, at_zero), (self._nothing, _z(self._p_value)), CLOSE_TO_MEDIAN)
        return self._cells.error_of(self._soft(place))

    def _low(self) -> float:
        """Smallest error that the test does not reject."""
        least = _first(lambda at: self._cells.error_of(self._firm(at)) > 0, self._nothing, 0.0)
        at_zero = self._surprise_below(self._firm(0.0))
        found = 0.0
        if at_zero > 0:
            end = (least, self._below_without_gaps())
            found = _between(lambda at: self._surprise_below(self._firm(at)), (0.0, at_zero), end)
        low = self._cells.error_of(self._firm(found))
        if self._cells.cancels:
            for family in self._one_sign(np.zeros_like(self._sizes)):
                low = min(low, self._low_of(family, low))
        if self._cells.largest:
            low = min(low, self._low_of(self._even, low))
        return low

    def _low_of(self, family: Family, bound: float) -> float:
        """Smallest accepted error of a family, or ``bound`` if that is less."""

        def surprise(at: float) -> float:
            return self._surprise_below(family(at))

        start = self._place_of(family, bound)
        at_start = surprise(start)
        if start == FARTHEST or at_start <= 0:
            return bound
        least = _first(lambda at: self._cells.error_of(family(at)) > 0, 0.0, start)
        found = _between(surprise, (0.0, self._below_without_gaps()), (start, at_start))
        return self._cells.error_of(family(max(least, found)))

    def _below_without_gaps(self) -> float:
        """Surprise without gaps; negative, because the error is too large."""
        above, tail, _ = self._without_gaps
        return min(_z(above) - _z(tail), -CLOSE)

    def _high(self) -> float:
        """Largest error that the test does not reject."""
        if self._cells.largest:
            return self._cells.error_of(widest_gaps(self._cells, self._level))
        out = self._signs * np.maximum(self._sizes - STANDS_OUT * self._errors, 0.0)
        high = self._high_of(self._added(out, self._signs), 0.0)
        if self._cells.cancels:
            for family in self._one_sign(out):
                high = self._high_of(family, high)
        return high

    def _high_of(self, family: Family, bound: float) -> float:
        """Largest accepted error of a family, or ``bound`` if that is more."""
        start = self._place_of(family, bound)
        if start == FARTHEST:
            return bound
        at_start = self._surprise_above(family(start))
        found = rising_root(lambda at: self._surprise_above(family(at)), start, FARTHEST, at_start=at_start)
        return max(bound, self._cells.error_of(family(found)))

    def _place_of(self, family: Family, error: float) -> float:
        return _first(lambda at: self._cells.error_of(family(at)) >= error, 0.0, FARTHEST)

    def _one_sign(self, gaps: Vector) -> Iterator[Family]:
        """Increments of the gaps in every bin: all positive, and all negative."""
        return (self._added(gaps, np.full_like(gaps, sign)) for sign in (1.0, -1.0))

    def _added(self, gaps: Vector, signs: Vector) -> Family:
        """Gaps plus a number of standard errors per bin."""
        return lambda place: self._cells.possible(gaps + place * signs * self._errors)

    def _even(self, place: float) -> Vector:
        """Gaps of one size in all bins; at place 1 as large as the error found."""
        return self._cells.possible(place * self._observed * self._signs)

    def _soft(self, place: float) -> Vector:
        """Observed gaps, shrunk or grown by standard errors."""
        return self._cells.possible(self._signs * np.maximum(self._sizes + place * self._errors, 0.0))

    def _firm(self, place: float) -> Vector:
        """Large gaps unchanged, small ones shrunk to zero."""
        sizes = np.where(
            self._scores > -2 * place, self._sizes, 2 * np.maximum(self._sizes + place * self._errors, 0.0)
        )
        return self._signs * sizes

    def _surprise_below(self, gaps: Vector) -> float:
        """Positive if the error is not too large for these gaps; far below zero if no draw reaches it."""
        above, tail, _ = self._above(gaps)
        surprise = _z(above) - _z(tail)
        return min(surprise, -STRAIGHT) if surprise < 0 and above <= self._none else surprise

    def _surprise_above(self, gaps: Vector) -> float:
        """Positive if the error is too small for these gaps; far above zero if no draw is smaller."""
        _, tail, below = self._above(gaps)
        surprise = _z((1 - self._level) - tail) - _z(below)
        return max(surprise, STRAIGHT) if surprise > 0 and below <= self._none else surprise

    def _above(self, gaps: Vector) -> tuple[float, float, float]:
        """Share of noisy errors above the measured one, tail for such gaps, and share below."""
        return self._shares(self._drawn(gaps)) if gaps.any() else self._without_gaps

    def _shares(self, drawn: Vector) -> tuple[float, float, float]:
        shift = _NORMAL.inv_cdf(min(max(float((drawn > self._median).mean()), 0.001), 0.999))
        tail = upper_tail(max(shift, 0.0), self._level)
        return (
            _share(drawn >= self._observed - ROUNDING),
            tail,
            _share(drawn <= self._observed + ROUNDING),
        )

    def _drawn(self, gaps: Vector) -> Vector:
        """Noisy errors with these gaps: rescaled draws, or drawn counts if few events are expected."""
        if self._cells.clustered is not None:
            return self._cells.error(clustered_sums(self._cells, self._noise, gaps, self._more_noise))
        wanted, given = self._cells.variances(gaps), self._under_chance
        ratio = np.divide(wanted, given, out=np.ones_like(given), where=given > 0)
        more = np.sqrt(np.maximum(wanted - given, 0.0))
        more[self._sparse.counted(gaps)] = 0.0
        extra = self._more_noise if (more > 0).any() else _NOTHING
        return self._sparse.errors(gaps, np.sqrt(np.minimum(ratio, 1.0)), extra, more)

    @cached_property
    def _more_noise(self) -> NDArray[np.float32]:
        return np.random.default_rng(self._seed).standard_normal(self._noise.shape, dtype=np.float32)


def _share(which: NDArray[np.bool_]) -> float:
    """p-value of a statistic among draws, itself counted as one of them."""
    return float((1 + np.count_nonzero(which)) / (1 + len(which)))


def _z(share: float) -> float:
    """Normal quantile of a share: nearly linear in the noisy errors."""
    return _NORMAL.inv_cdf(min(max(share, LEAST_SHARE), 1 - LEAST_SHARE))


def _first(true: Callable[[float], bool], low: float, high: float) -> float:
    """The first place where a monotone condition holds, else ``high``."""
    if true(low):
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if true(middle) else (middle, high)
    return high


def rising_root(
    function: Callable[[float], float],
    low: float,
    high: float,
    *,
    at_start: float | None = None,
    close: float = CLOSE,
) -> float:
    """Root of a rising function between two places; the nearer one if the root is outside.

    It steps from the end nearer zero (value ``at_start``) to a change of sign, then calls `_between`.
    """
    start, end = (low, high) if abs(low) < abs(high) else (high, low)
    way, step = (1.0 if end > start else -1.0), FIRST_STEP
    near, at_near = start, (function(start) if at_start is None else at_start)
    if at_near * way >= 0:
        return start
    while near != end:
        far = near + way * step if step < abs(end - near) else end
        at_far = function(far)
        if at_far * way >= 0:
            return _between(function, (near, at_near), (far, at_far), close)
        risen = (at_far - at_near) * way
        step *= min(max(FURTHER * abs(at_far) / risen, 0.25), 4.0) if risen > 0 else 2.0
        near, at_near = far, at_far
    return end


def _between(
    function: Callable[[float], float],
    one: tuple[float, float],
    other: tuple[float, float],
    close: float = CLOSE,
) -> float:
    """Root of a function between two places, by false position (Illinois)."""
    ends = [one, other]
    at_ends, last = [one[1], other[1]], -1  # halved if an end stays twice
    for _ in range(STEPS):
        nearest, farthest = sorted(abs(value) for _, value in ends)
        if nearest < close / 3 or abs(ends[0][0] - ends[1][0]) < NARROW:
            break
        if nearest < close and farthest < STRAIGHT:
            break
        place = _crossing((ends[0][0], at_ends[0]), (ends[1][0], at_ends[1]))
        value = function(place)
        moved = int(value * at_ends[1] > 0)  # the end on the same side
        ends[moved], at_ends[moved] = (place, value), value
        if moved == last:
            at_ends[1 - moved] /= 2
        last = moved
    if max(abs(value) for _, value in ends) < STRAIGHT:
        return _crossing(*ends)
    return min(ends, key=lambda end: abs(end[1]))[0]


def _crossing(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Root of the straight line through two points."""
    return one[0] - one[1] * (other[0] - one[0]) / (other[1] - one[1])


def upper_tail(shift: float, level: float) -> float:
    """The probability above the interval of Feldman and Cousins, for a mean of ``shift`` standard deviations.

    Example:
        >>> round(upper_tail(0.0, 0.95), 4), round(upper_tail(1.0, 0.95), 4), round(upper_tail(3.0, 0.95), 4)
        (0.05, 0.0344, 0.025)
    """
    tails = _tails(level)
    place = min(shift / 4, 1.0) * (len(tails) - 1)
    below = min(int(place), len(tails) - 2)
    return tails[below] + (place - below) * (tails[below + 1] - tails[below])


@cache
def _tails(level: float) -> tuple[float, ...]:
    """Upper tails for means of 0, 1/16, ..., 4 standard deviations."""
    cdf = _NORMAL.cdf
    tails = [1 - level]
    for step in range(1, 65):
        mean, low, high = step / 16, 0.0, 8.0
        for _ in range(60):
            reach = (low + high) / 2
            # Accepted are the values whose likelihood, as a share of the largest, is at least this one's.
            lower = -reach if reach <= mean else (mean**2 - reach**2) / (2 * mean) - mean
            low, high = (reach, high) if cdf(reach) - cdf(lower) < level else (low, reach)
        tails.append(1 - cdf(high))
    return tuple(tails)


def widest_gaps(cells: ResidualSums, level: float) -> Vector:
    """Largest gap of each bin ``(F,)`` that its samples do not exclude; 0 if it is empty.

    The mean outcome of a bin is in Clopper and Pearson's interval at the stated level, even if its samples
    differ (Hoeffding 1956); with weights or clusters, the samples count as fewer. The largest gap is in a
    single bin, so intervals of every bin at the level of one are wide enough.

    References:
        Hoeffding, "On the distribution of the number of successes in independent trials", Annals of
        Mathematical Statistics 27, 1956.
    """
    from scipy.special import betaincinv  # scipy.stats takes half a second to import

    counts, stated = _counts(cells), cells.stated
    happened = np.clip(stated + cells.gaps, 0.0, 1.0) * counts
    tail = (1 - level) / 2
    held = counts > 0
    low, high = np.zeros_like(stated), np.ones_like(stated)
    some, not_all = held & (happened > 0), held & (happened < counts)
    low[some] = betaincinv(happened[some], (counts - happened)[some] + 1, tail)
    high[not_all] = betaincinv(happened[not_all] + 1, (counts - happened)[not_all], 1 - tail)
    widest = np.where(high - stated > stated - low, high - stated, low - stated)
    return np.where(held, widest, 0.0)


def _counts(cells: ResidualSums) -> Vector:
    """Effective number of independent samples in each bin."""
    mass = cells.bin_mass
    squares = np.bincount(cells.bin, cells.squares, cells.num_bins)
    counts = np.divide(mass**2, squares, out=np.zeros_like(mass), where=squares > 0)
    if cells.clustered is None:
        return counts
    gaps = cells.gaps
    alone, together = cells.independent_errors(gaps), cells.bin_errors(gaps)
    return counts * np.divide(alone, together, out=np.ones_like(alone), where=together > 0) ** 2


Single: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

FEW = 5.0  # events
MOST_COUNTED = 48  # of them
MOST_EXPECTED = 24.0  # beyond which there are not few


class SparseNoise:
    """Bins with few expected events, or few expected non-events, and the counts drawn there.

    A draw is kept as the uniform number that gives its count under calibration. So counts change steadily
    with the gaps, and without gaps the draws are unchanged.
    """

    def __init__(self, cells: ResidualSums, noise: Matrix, seed: int) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = cells.squares / cells.mass  # average contribution of an event
            trials = cells.mass / unit
            stated = (1 - cells.tilt / cells.squares) / 2
        rare = np.minimum(stated, 1 - stated)
        few = np.flatnonzero((trials * rare < FEW) & (cells.mass > 0)) if cells.bins_alone else np.arange(0)
        self._places, self._cells, self._noise = few, cells, noise
        self._extra_by_cell = np.empty((0, 0), np.float32)
        self._side = np.where(stated[few] > 0.5, -1.0, 1.0)
        self._trials, self._rare = np.rint(trials[few]), rare[few]
        self._units = unit[few] * self._side
        self._usual = self._units * self._rare * self._trials
        rng = np.random.default_rng((seed, 1))
        counts = noise[:, few] / self._units + self._rare * trials[few]
        drawn = (counts + 0.5).astype(np.int64).clip(0, MOST_COUNTED - 1)
        tables, columns = binomial_tables(self._trials, self._rare), np.arange(len(few))
        high = tables[columns, drawn]
        low = np.where(drawn > 0, tables[columns, drawn - 1], np.float32(0.0))
        uniform = high - rng.random(counts.shape, dtype=np.float32) * (high - low)
        self._uniform = uniform.astype(np.float32, copy=False)  # ``(R, M)``: the tables turn them into counts

    def counted(self, gaps: Vector) -> Mask:
        """Mask ``(M,)`` of cells where few events are expected with these gaps too."""
        counted = np.zeros(self._cells.num_cells, bool)
        counted[self._places] = self._rates(gaps) * self._trials <= MOST_EXPECTED
        return counted

    def _rates(self, gaps: Vector) -> Vector:
        return np.clip(self._rare + self._side * gaps[self._places], 0.0, 1.0)

    def errors(self, gaps: Vector, shrink: Vector, extra: Single, more: Vector) -> Vector:
        """Errors ``(R,)`` with these gaps: of the noise times factors, plus more noise ``(R, M)``."""
        if self._cells.per_size is None:
            return self._cells.error(self.sums(gaps, shrink, extra, more))
        return self._add(gaps, shrink, extra, more, np.empty((0, 0))) * self._cells.per_size

    def sums(self, gaps: Vector, shrink: Vector, extra: Single, more: Vector) -> Matrix:
        """Residual sums ``(R, M)`` with these gaps; from event counts if few are expected."""
        sums = np.empty(self._by_cell[0].shape)
        self._add(gaps, shrink, extra, more, sums)
        return np.ascontiguousarray(sums.T)

    def _add(self, gaps: Vector, shrink: Vector, extra: Single, more: Vector, sums: Matrix) -> Vector:
        """Summed sizes ``(R,)`` of the residual sums, which also go into ``sums`` ``(M, R)`` unless empty."""
        noise, uniform, place = self._by_cell
        if len(extra) and self._extra_by_cell.shape != noise.shape:
            self._extra_by_cell = np.ascontiguousarray(extra.T)
        tables = binomial_tables(self._trials, self._rates(gaps))
        drawn, sizes = np.empty(noise.shape[1]), np.zeros(noise.shape[1])
        moved, counted = (shrink, self._extra_by_cell, more, self._cells.sums(gaps)), self.counted(gaps)
        of_few = place, uniform, tables, self._units, self._usual
        _add_cells(noise, *moved, counted, *of_few, drawn, sizes, sums)
        return sizes

    @cached_property
    def _by_cell(self) -> tuple[Matrix, Single, Indices]:
        """Noise and uniform numbers cell by cell, and the index of each cell among those of few events."""
        place = np.zeros(self._cells.num_cells, np.int64)
        place[self._places] = np.arange(len(self._places))
        return np.ascontiguousarray(self._noise.T), np.ascontiguousarray(self._uniform.T), place


@njit
def _add_cells(
    noise: Matrix,
    shrink: Vector,
    extra: Single,
    more: Vector,
    expected: Vector,
    counted: Mask,
    place: Indices,
    uniform: Single,
    tables: Single,
    units: Vector,
    usual: Vector,
    drawn: Vector,
    sizes: Vector,
    sums: Matrix,
) -> None:
    """Residual sums from arrays ``(M, R)``; where few events are expected, drawn counts times units."""
    num_cells, num_draws = noise.shape
    for m in range(num_cells):
        if counted[m]:
            j = place[m]
            drawn[:] = 0.0
            for k in range(MOST_COUNTED - 1):
                bound = tables[j, k]
                if bound >= 1.0:
                    break
                for r in range(num_draws):
                    drawn[r] += 1.0 if uniform[j, r] > bound else 0.0
            for r in range(num_draws):
                drawn[r] = units[j] * drawn[r] - usual[j]
        else:
            for r in range(num_draws):
                drawn[r] = expected[m] + shrink[m] * noise[m, r]
            if more[m] > 0.0:
                for r in range(num_draws):
                    drawn[r] += more[m] * extra[m, r]
        for r in range(num_draws):
            sizes[r] += abs(drawn[r])
        if len(sums) > 0:
            sums[m] = drawn


def binomial_tables(trials: Vector, rates: Vector) -> Single:
    """The probabilities ``(M, MOST_COUNTED)`` of at most 0, 1, ... events in N trials."""
    tables = np.ones((len(trials), MOST_COUNTED), np.float32)
    _fill_binomial(trials, rates, tables)
    return tables


@njit
def _fill_binomial(trials: Vector, rates: Vector, tables: Single) -> None:
    for m in range(len(trials)):
        n, q = trials[m], rates[m]
        if q >= 1.0:
            for k in range(MOST_COUNTED):
                tables[m, k] = 0.0 if k < n else 1.0
            continue
        odds = q / (1.0 - q)
        term = (1.0 - q) ** n
        total = term
        for k in range(MOST_COUNTED):
            if total > 1.0 - 1e-7 or k >= n:
                break
            tables[m, k] = total
            term *= odds * (n - k) / (k + 1.0)
            total += term
