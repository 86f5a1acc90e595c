"""Draws of the calibration error of a model whose true error is exactly at a limit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from calibrant.evaluation.resampling.clustered_noise import clustered_sums
from calibrant.evaluation.resampling.event_cells import BinnedEvents, Kernel, ResidualSums, bin_matrix
from calibrant.evaluation.resampling.events import Events, Matrix, Vector
from calibrant.evaluation.resampling.intervals import effective_number
from calibrant.evaluation.resampling.null import ROUNDING, draw_null, noise_of
from calibrant.evaluation.resampling.resamples import SMALL_BLOCK, Stream, block_bounds, stream_seed

PLENTY = 1600  # samples per bin: noise gives an error of 0.4 / sqrt(samples per bin) at most, 0.01
CLUSTER_STEPS = 40  # of the bisection where samples come in clusters
MOST_GAPS = 64.0  # times the gaps found: clipping at 0 and 1 can take from them
STEPS = 60  # of the bisection


class ErrorModels(ABC):
    """Models that state the checked model's probabilities, with any true error."""

    observed: float
    num_draws: int
    plenty: bool = False
    """True if noise hides no error worth mentioning."""

    @property
    @abstractmethod
    def greatest(self) -> float:
        """The greatest true error of these models."""

    @abstractmethod
    def as_found(self, error: float, number: int) -> Vector:
        """Errors ``(number,)`` of samples; the gaps found are scaled to this true error."""

    @abstractmethod
    def furthest(self, error: float, number: int) -> Vector:
        """Errors ``(number,)`` of samples; outcomes move towards the greatest error up to this true error."""


class ClusteredError(ErrorModels):
    """An error over bins or cells, and the noise ``(R, M)`` of clusters in it."""

    def __init__(self, cells: ResidualSums, noise: Matrix, seed: int) -> None:
        self._cells, self._noise = cells, noise
        self.observed, self.num_draws = cells.observed, len(noise)  # for classes fewer than requested
        rng = np.random.default_rng((seed, 5))
        self._extra = rng.standard_normal(noise.shape, dtype=np.float32)

    @classmethod
    def of_events(
        cls, kernel: Kernel, events: Sequence[Events], *, num_bins: int, num_draws: int, seed: int
    ) -> ClusteredError:
        places = [BinnedEvents(event, num_bins) for event in events]
        seeds = [stream_seed(seed, Stream.NULL, part) for part in range(len(events))]
        drawn = [
            draw_null(each, num_bins, num_draws, of, num_kept=num_draws)
            for each, of in zip(places, seeds, strict=True)
        ]
        return cls(*noise_of(places, drawn, kernel), seed)

    @cached_property
    def _furthest(self) -> tuple[float, Vector]:
        """The greatest error and its gaps: outcomes are never, always, or the less likely one of each bin."""
        stated = self._cells.stated
        directions = np.where(stated <= 0.5, 1.0, 0.0) - stated, -stated, 1 - stated
        return max(((self._of(each), each) for each in directions), key=lambda found: found[0])

    @property
    def greatest(self) -> float:
        return self._furthest[0]

    def as_found(self, error: float, number: int) -> Vector:
        return self._draws(self._cells.gaps, error, number)

    def furthest(self, error: float, number: int) -> Vector:
        return self._draws(self._furthest[1], error, number)

    def _of(self, gaps: Vector) -> float:
        """The error that gaps have without noise."""
        return float(self._cells.error(self._cells.sums(gaps)[None])[0])

    def _draws(self, direction: Vector, error: float, number: int) -> Vector:
        """Errors of samples with gaps in this direction, scaled to this error or as near as possible."""
        noise = self._noise[:number]

        def shifted(t: float) -> Vector:
            return np.clip(t * direction, -self._cells.stated, 1 - self._cells.stated)

        gaps = shifted(_reaching(lambda t: self._of(shifted(t)), error, CLUSTER_STEPS))
        return self._cells.error(clustered_sums(self._cells, noise, gaps, self._extra[: len(noise)]))


AtLimitKernel: TypeAlias = Literal["width l1", "mass l1", "smooth"]


@dataclass(frozen=True)
class AtLimit:
    """Errors of samples drawn from a model at the limit, compared with the measured one."""

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
    models = error_models(error, events, found, num_bins=num_bins, num_draws=num_draws, seed=seed)
    return at_limit(models, limit, num_draws=num_draws, confidence=confidence)


def at_limit(models: ErrorModels, limit: float, *, num_draws: int, confidence: float) -> AtLimit:
    drawn = models.as_found(limit, num_draws)
    return AtLimit(
        mean=float(drawn.mean()),
        upper=float(np.quantile(drawn, confidence)),
        p_value=(1 + int((drawn >= models.observed - ROUNDING).sum())) / (1 + len(drawn)),
        num_draws=len(drawn),
    )


def error_models(
    error: AtLimitKernel,
    events: Sequence[Events],
    found: float,
    *,
    num_bins: int,
    num_draws: int,
    seed: int,
) -> ErrorModels:
    if events[0].clusters is not None:
        return ClusteredError.of_events(error, events, num_bins=num_bins, num_draws=num_draws, seed=seed)
    return OutcomeErrors(error, events, found, num_bins=num_bins, num_draws=num_draws, seed=seed)


class OutcomeErrors(ErrorModels):
    """Models of independent samples, whose outcomes are drawn one by one."""

    def __init__(
        self,
        error: AtLimitKernel,
        events: Sequence[Events],
        found: float,
        *,
        num_bins: int,
        num_draws: int,
        seed: int,
    ) -> None:
        self.observed, self.num_draws, self._seed = found, num_draws, seed
        self.plenty = sum(_effective_number(event) for event in events) >= PLENTY * num_bins
        self._error: AtLimitKernel = error
        self._events, self._num_bins = events, num_bins

    @cached_property
    def _measures(self) -> list[OutcomeError]:
        return [OutcomeError(event, self._error, self._num_bins) for event in self._events]

    def as_found(self, error: float, number: int) -> Vector:
        return self._draws([measure.gaps() for measure in self._measures], error, number)

    def furthest(self, error: float, number: int) -> Vector:
        return self._draws(self._furthest[1], error, number)

    @property
    def greatest(self) -> float:
        return self._furthest[0]

    @cached_property
    def _furthest(self) -> tuple[float, list[Vector]]:
        """The greatest error and its gaps: outcomes always or never, in each bin or throughout."""
        opposite = [measure.opposite() for measure in self._measures]
        never = [np.zeros_like(measure.stated) for measure in self._measures]
        always = [np.ones_like(measure.stated) for measure in self._measures]
        found: list[tuple[float, list[Vector]]] = []
        for outcomes in (opposite, never, always):
            pairs = list(zip(self._measures, outcomes, strict=True))
            errors = [measure(each[:, None])[0] for measure, each in pairs]
            found.append((float(np.mean(errors)), [each - measure.stated for measure, each in pairs]))
        return max(found, key=lambda each: each[0])

    def _draws(self, gaps: Sequence[Vector], error: float, number: int) -> Vector:
        return draw_errors(self._measures, probabilities_at(self._measures, gaps, error), number, self._seed)


def _effective_number(event: Events) -> float:
    return len(event.confidences) if event.weights is None else effective_number(event.weights)


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
    """The error of one kind of event, as a function of its outcomes or their probabilities."""

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
        """For each sample, the share minus the mean probability of its bin."""
        return self._of_bins(self._outcomes - self.stated)

    def opposite(self) -> Vector:
        """Outcomes furthest from the predictions: in each bin all 1, or all 0."""
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
        from calibrant._math.lipschitz import lipschitz_values  # compiled

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
    """Root of a rising error by bisection; at most ``MOST_GAPS``."""
    low, high = 0.0, 1.0
    while error(high) < wanted and high < MOST_GAPS:
        high *= 2
    for _ in range(steps if wanted > 0 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) < wanted else (low, middle)
    return low
