"""Draws of the calibration error of a model whose true error is exactly at a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from calibrant.evaluation.resampling.clustered_noise import clustered_sums
from calibrant.evaluation.resampling.event_cells import BinnedEvents, Kernel, ResidualSums, bin_matrix
from calibrant.evaluation.resampling.events import Events, Matrix, Vector
from calibrant.evaluation.resampling.null import ROUNDING, draw_null, noise_of
from calibrant.evaluation.resampling.resamples import SMALL_BLOCK, Stream, block_bounds, stream_seed

CLUSTER_STEPS = 40  # of the bisection where samples come in clusters
MOST_GAPS = 64.0  # times the gaps found: clipping at 0 and 1 can take from them
STEPS = 60  # of the bisection


class ClusteredError:
    """An error over bins or cells, and the noise ``(R, M)`` of clusters in it."""

    def __init__(self, cells: ResidualSums, noise: Matrix, seed: int) -> None:
        self._cells, self._noise = cells, noise
        rng = np.random.default_rng((seed, 5))
        self._extra = rng.standard_normal(noise.shape, dtype=np.float32)

    @classmethod
    def of_events(
        cls, kernel: Kernel, events: Sequence[Events], *, num_bins: int, num_draws: int, seed: int
    ) -> ClusteredError:
        """The error of events, averaged over them."""
        places = [BinnedEvents(event, num_bins) for event in events]
        seeds = [stream_seed(seed, Stream.NULL, part) for part in range(len(events))]
        drawn = [
            draw_null(each, num_bins, num_draws, of, num_kept=num_draws)
            for each, of in zip(places, seeds, strict=True)
        ]
        return cls(*noise_of(places, drawn, kernel), seed)

    @property
    def num_draws(self) -> int:
        """Number of draws of the noise: for classes fewer than requested."""
        return len(self._noise)

    @property
    def observed(self) -> float:
        return self._cells.observed

    @property
    def found(self) -> Vector:
        """The gaps found in each bin ``(F,)``."""
        return self._cells.gaps

    @property
    def directions(self) -> tuple[Vector, Vector, Vector]:
        """The gaps where in each bin what is stated least always happens; where all never does, or always."""
        stated = self._cells.stated
        return np.where(stated <= 0.5, 1.0, 0.0) - stated, -stated, 1 - stated

    def of(self, gaps: Vector) -> float:
        """The error that gaps have without noise."""
        return float(self._cells.error(self._cells.sums(gaps)[None])[0])

    def draws(self, gaps: Vector, number: int) -> Vector:
        """The errors ``(number,)`` of samples of a model with these gaps."""
        noise = self._noise[:number]
        return self._cells.error(clustered_sums(self._cells, noise, gaps, self._extra[: len(noise)]))

    def gaps_at(self, direction: Vector, error: float) -> Vector:
        """Gaps in a direction that have this error, as far as there are any."""

        def shifted(t: float) -> Vector:
            return np.clip(t * direction, -self._cells.stated, 1 - self._cells.stated)

        return shifted(_reaching(lambda t: self.of(shifted(t)), error, CLUSTER_STEPS))


AtLimitKernel: TypeAlias = Literal["width l1", "mass l1", "smooth"]


@dataclass(frozen=True)
class AtLimit:
    """The errors of samples drawn from a model at the limit, against the one found."""

    mean: float
    upper: float
    p_value: float
    num_draws: int


def draw_at_limit(
    error: AtLimitKernel,
    events: Sequence[Events],
    limit: float,
    found: float,
    *,
    num_bins: int,
    num_draws: int,
    confidence: float,
    seed: int,
) -> AtLimit:
    r"""Test the hypothesis that the true error is at most ``limit``, by draws from its boundary.

    The model at the limit states what this one states. What happens has the probability
    :math:`p + t \, g(p)`, where g is the gap found in p's bin (share minus mean) and t is chosen such that
    the error of these probabilities is the limit: as far off as is allowed, in the directions in which this
    model errs. For a limit of zero this is the test against perfect calibration. An error computed from few
    samples is too large on average; here both sides are, so that does no harm. Samples in clusters have these
    gaps bin by bin, with the noise of whole clusters.
    """
    if events[0].clusters is not None:
        clustered = ClusteredError.of_events(error, events, num_bins=num_bins, num_draws=num_draws, seed=seed)
        drawn = clustered.draws(clustered.gaps_at(clustered.found, limit), num_draws)
        return at_limit_of(drawn, clustered.observed, confidence)
    measures = [OutcomeError(event, error, num_bins) for event in events]
    gaps = [measure.gaps() for measure in measures]
    drawn = draw_errors(measures, probabilities_at(measures, gaps, limit), num_draws, seed)
    return at_limit_of(drawn, found, confidence)


def at_limit_of(drawn: Vector, found: float, confidence: float) -> AtLimit:
    """The measured error among those drawn from a model at the limit."""
    return AtLimit(
        mean=float(drawn.mean()),
        upper=float(np.quantile(drawn, confidence)),
        p_value=(1 + int((drawn >= found - ROUNDING).sum())) / (1 + len(drawn)),
        num_draws=len(drawn),
    )


def draw_errors(
    measures: Sequence[OutcomeError], probs: Sequence[Vector], num_draws: int, seed: int
) -> Vector:
    """Errors ``(D,)`` of outcomes drawn from these probabilities, averaged over the kinds of event."""
    drawn = np.zeros(num_draws)
    for part, (measure, true) in enumerate(zip(measures, probs, strict=True)):
        rng = np.random.default_rng(stream_seed(seed, Stream.NULL, part))
        thresholds = true.astype(np.float32)[:, None]
        for start, stop in block_bounds(num_draws, SMALL_BLOCK // len(true)):
            outcomes = rng.random((len(true), stop - start), dtype=np.float32) < thresholds
            drawn[start:stop] += measure(outcomes.astype(np.float64)) / len(measures)
    return drawn


class OutcomeError:
    """The error of one kind of event when its outcomes, or their probabilities, are these."""

    def __init__(self, event: Events, error: AtLimitKernel, num_bins: int) -> None:
        self.stated = event.confidences
        self._outcomes = event.outcomes
        self._mass = event.mass
        matrix = bin_matrix(event, num_bins)
        self._bins = matrix[num_bins:] if error == "mass l1" else matrix[:num_bins]
        self._sums: Callable[[Matrix], Vector] = self._smooth if error == "smooth" else self._binned
        self._order = np.argsort(self.stated)

    def __call__(self, outcomes: Matrix) -> Vector:
        """Errors ``(D,)`` of outcomes ``(N, D)``."""
        return self._sums(outcomes - self.stated[:, None]) / float(self._mass.sum())

    def gaps(self) -> Vector:
        """For each sample, the mean of what happened minus what was stated in its bin."""
        return self._of_bins(self._outcomes - self.stated)

    def opposite(self) -> Vector:
        """Outcomes furthest from the predictions: in each bin always, or never."""
        return (self._of_bins(self.stated) <= 0.5).astype(np.float64)

    def _of_bins(self, values: Vector) -> Vector:
        """Mean of each sample's bin."""
        weight = np.asarray(self._bins.sum(axis=1)).ravel()
        sums = np.asarray(self._bins @ values)
        mean = np.divide(sums, weight, out=np.zeros_like(sums), where=weight > 0)
        shares = self._bins.T @ mean  # each column of the bins sums to the sample's weight
        return np.divide(shares, self._mass, out=np.zeros_like(shares), where=self._mass > 0)

    def _binned(self, residuals: Matrix) -> Vector:
        return np.abs(self._bins @ residuals).sum(axis=0)

    def _smooth(self, residuals: Matrix) -> Vector:
        from calibrant._math.lipschitz_values import lipschitz_values  # compiled

        weighted = (residuals * self._mass[:, None]).T[:, self._order]
        return lipschitz_values(self.stated[self._order], np.ascontiguousarray(weighted))


def probabilities_at(measures: Sequence[OutcomeError], gaps: Sequence[Vector], limit: float) -> list[Vector]:
    """The probabilities at the limit, for every kind of event; the error rises with t."""

    def shifted(t: float) -> list[Vector]:
        return [
            np.clip(measure.stated + t * gap, 0.0, 1.0) for measure, gap in zip(measures, gaps, strict=True)
        ]

    def error(t: float) -> float:
        each = [float(m(probs[:, None])[0]) for m, probs in zip(measures, shifted(t), strict=True)]
        return float(np.mean(each))

    return shifted(_reaching(error, limit, STEPS))


def _reaching(error: Callable[[float], float], wanted: float, steps: int) -> float:
    """How far to go for an error that rises from 0, by bisection; as far as ``MOST_GAPS``."""
    low, high = 0.0, 1.0
    while error(high) < wanted and high < MOST_GAPS:
        high *= 2
    for _ in range(steps if wanted > 0 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) < wanted else (low, middle)
    return low
