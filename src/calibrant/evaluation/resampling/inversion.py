r"""Intervals of calibration errors: the true errors under which the one found is no surprise.

A calibration error is a sum of sizes, so noise enlarges it, and the more the smaller the true error is. A
bootstrap does not see that: its intervals miss a true error of zero nearly always. Here a test is inverted
instead. Bins get gaps (what happens minus what is stated), from none through those found to larger ones; each
set of gaps has an error e; noise is added to the residual sums that it gives, and e belongs to the interval
if the error found lies between the quantiles of the noisy ones.

**Noise** is that of outcomes drawn as they are stated, the same draws as those of the null distribution. A
gap changes its size: in each cell the draws are shrunk, or normal noise is added, until the variance is that
of outcomes with the gap. Without gaps the test is therefore the one against perfect calibration.

**Gaps** with the same error can be few and large or many and small; many small ones hide in the noise, few
large ones do not. The data tell only the large ones apart. So each end is taken where it is hardest to
exclude: the lower one with the gaps that stand out left as they are and all others removed (firm thresholds),
the upper one with what exceeds two standard errors of each gap, and on top of that as much for every bin, in
proportion to its standard error, as the noise conceals. The estimate without what chance adds is the
error of the gaps, soft-thresholded or widened, whose noisy error lies above the one found half the time.

**Tails.** No error is below zero, so at zero only a large one is a surprise, with the whole error level on
that side; far from zero the level is shared out equally. Between, the tails are those of Feldman and Cousins
for a normal mean that is not negative. So the interval leaves out zero exactly where the p-value against
perfect calibration is at most the error level.

References:
    Feldman and Cousins, "Unified approach to the classical statistical analysis of small signals", Physical
    Review D 57, 1998. Gao and Bruce, "WaveShrink with firm shrinkage", Statistica Sinica 7, 1997.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from calibrant.evaluation.resampling.event_cells import Cells
from calibrant.evaluation.resampling.events import Matrix, Vector
from calibrant.evaluation.resampling.null import ROUNDING, beyond_chance
from calibrant.evaluation.result import Estimate

STEPS = 8  # halvings of each search, before a straight line
FARTHEST = 8.0  # standard errors by which gaps are widened at most
STANDS_OUT = 2.0  # standard errors
FEWEST_DRAWS, MOST_SUMS = 400, 1 << 17  # draws are left out where there are more noisy sums than that
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Inverted:
    """The interval, and the estimate without what chance adds."""

    low: float
    high: float
    without_chance: float

    def estimate(self, value: float, bounds: tuple[float, float]) -> Estimate:
        """With the value itself, within bounds."""
        low, high = bounds
        return Estimate(
            value=value,
            low=max(low, self.low),
            high=min(high, self.high),
            without_chance=min(high, self.without_chance),
        )


def num_noise(num_cells: int, num_draws: int) -> int:
    """How many draws of the noise a search takes, of those that there are."""
    return min(num_draws, max(FEWEST_DRAWS, MOST_SUMS // max(1, num_cells)))


def invert(cells: Cells, noise: Matrix, level: float, *, real: bool | None = None, seed: int = 0) -> Inverted:
    """The interval of an error from the noise ``(R, M)`` of its residual sums under calibration.

    ``real`` says whether the error lies beyond chance, where that is known from more draws.
    """
    return _Search(cells, noise, level, seed).result(real)


class _Search:
    def __init__(self, cells: Cells, noise: Matrix, level: float, seed: int) -> None:
        self._cells = cells
        self._noise = noise
        self._level = level
        self._seed = seed
        self._extra: NDArray[np.float32] | None = None
        self._observed = cells.observed
        self._sizes = np.abs(cells.gaps)
        self._signs = np.where(cells.gaps < 0, -1.0, 1.0)
        self._errors = cells.bin_errors(cells.gaps)
        self._under_chance = cells.variances(np.zeros_like(cells.gaps))
        scores = np.divide(self._sizes, self._errors, out=np.zeros_like(self._sizes), where=self._errors > 0)
        self._scores = scores
        self._nothing = -float(scores.max(initial=0.0))  # the place at which all gaps are gone
        drawn = cells.error(noise)
        self._median = float(np.median(drawn))
        self._p_value = _share(drawn >= self._observed - ROUNDING)

    def result(self, real: bool | None) -> Inverted:
        """All three."""
        if real is None:
            real = beyond_chance(self._p_value, self._level)
        place = self._soft_place()
        middle = self._error(self._soft(place))
        low = 0.0
        if real:
            found = _crossing(lambda at: self._surprise_below(self._firm(at)), self._nothing, 0.0)
            low = self._error(self._firm(found))
        found = _crossing(lambda at: self._surprise_above(self._filled(at)), 0.0, FARTHEST)
        high = self._error(self._filled(found))
        return Inverted(min(low, middle), max(high, middle), middle)

    def _soft_place(self) -> float:
        """Where half of the noisy errors exceed the one found."""
        if self._p_value >= 0.5:
            return self._nothing

        def excess(at: float) -> float:
            return self._above(self._soft(at))[0] - 0.5

        return _crossing(excess, self._nothing, FARTHEST)

    def _soft(self, place: float) -> Vector:
        """The gaps found, all smaller or larger by so many standard errors."""
        return self._signs * np.maximum(self._sizes + place * self._errors, 0.0)

    def _firm(self, place: float) -> Vector:
        """Gaps of more than twice so many standard errors as found, of less than so many gone."""
        sizes = np.where(
            self._scores > -2 * place, self._sizes, 2 * np.maximum(self._sizes + place * self._errors, 0.0)
        )
        return self._signs * sizes

    def _filled(self, place: float) -> Vector:
        """Gaps of so many standard errors, on top of what stands out."""
        out = np.maximum(self._sizes - STANDS_OUT * self._errors, 0.0)
        return self._signs * (out + place * self._errors)

    def _error(self, gaps: Vector) -> float:
        """The error that gaps have without noise."""
        return float(self._cells.error(self._cells.sums(gaps)[None])[0])

    def _surprise_below(self, gaps: Vector) -> float:
        """Positive where the error found is not too large for these gaps."""
        above, tail, _ = self._above(gaps)
        return above - tail

    def _surprise_above(self, gaps: Vector) -> float:
        """Positive where the error found is too small for these gaps."""
        _, tail, below = self._above(gaps)
        return (1 - self._level) - tail - below

    def _above(self, gaps: Vector) -> tuple[float, float, float]:
        """The share of noisy errors above the one found, the tail for such gaps, and the share below."""
        drawn = self._cells.error(self._cells.sums(gaps) + self._noise_at(gaps))
        shift = _NORMAL.inv_cdf(min(max(float((drawn > self._median).mean()), 0.001), 0.999))
        tail = upper_tail(max(shift, 0.0), self._level)
        return (
            _share(drawn >= self._observed - ROUNDING),
            tail,
            _share(drawn <= self._observed + ROUNDING),
        )

    def _noise_at(self, gaps: Vector) -> Matrix:
        """The noise of outcomes with these gaps: draws under calibration, shrunk or with more added."""
        wanted, given = self._cells.variances(gaps), self._under_chance
        ratio = np.divide(wanted, given, out=np.ones_like(given), where=given > 0)
        noise = self._noise * np.sqrt(np.minimum(ratio, 1.0))
        more = np.sqrt(np.maximum(wanted - given, 0.0))
        if (more > 0).any():
            if self._extra is None:
                rng = np.random.default_rng(self._seed)
                self._extra = rng.standard_normal(self._noise.shape, dtype=np.float32)
            noise += self._extra * more
        return noise


def _share(which: NDArray[np.bool_]) -> float:
    """As a p-value is counted: what is found is one of the draws."""
    return float((1 + np.count_nonzero(which)) / (1 + len(which)))


def _crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function becomes positive between two places; the nearer one if that lies outside."""
    at_low, at_high = function(low), function(high)
    if at_low >= 0:
        return low
    if at_high <= 0:
        return high
    for _ in range(STEPS):
        middle = (low + high) / 2
        value = function(middle)
        if value < 0:
            low, at_low = middle, value
        else:
            high, at_high = middle, value
    return low - at_low * (high - low) / (at_high - at_low)


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
