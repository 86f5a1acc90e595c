"""Draws of the calibration error of a model whose true error is exactly at a limit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.resampling.event_cells import BinnedEvents, ResidualSums, bin_matrix, clustered_sums
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector
from calibrant.evaluation.resampling.intervals import effective_number
from calibrant.evaluation.resampling.null import ROUNDING, draw_null, grouped_draws, noise_of
from calibrant.evaluation.resampling.resamples import (
    MOST_UNITS,
    SMALL_BLOCK,
    Stream,
    block_bounds,
    stream_seed,
)

PLENTY = 1600  # samples per bin: noise gives an error of 0.4 / sqrt(samples per bin) at most, 0.01
MOST_GAPS = 64.0  # times the gaps found: clipping at 0 and 1 can take from them
STEPS = 60  # of the bisection, or 40 for clusters


class ErrorModels(ABC):
    """Models that state the checked model's probabilities, with any true error."""

    observed: float
    num_draws: int
    plenty: bool = False  # noise hides no error worth mentioning

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


AtLimitKernel: TypeAlias = Literal["width l1", "mass l1", "smooth"]


class GapModels(ErrorModels):
    """Models whose outcomes have the stated probabilities plus gaps, as far as these stay within 0 and 1."""

    stated: Vector  # probability of each bin or sample ``(F,)``
    steps: int = STEPS

    @abstractmethod
    def gaps(self) -> Vector:
        """The gaps found ``(F,)``."""

    @abstractmethod
    def opposite(self) -> Vector:
        """Outcomes ``(F,)``: never or always, whichever is further from the mean of the bin."""

    @abstractmethod
    def error_of(self, gaps: Vector) -> float:
        """The true error with these gaps."""

    @abstractmethod
    def draws(self, gaps: Vector, number: int) -> Vector:
        """Errors ``(number,)`` of samples with these gaps."""

    @cached_property
    def _furthest(self) -> tuple[float, Vector]:
        """The greatest error and its gaps: outcomes are opposite in each bin, never, or always."""
        directions = self.opposite() - self.stated, -self.stated, 1 - self.stated
        return max(((self.error_of(each), each) for each in directions), key=lambda found: found[0])

    @property
    def greatest(self) -> float:
        return self._furthest[0]

    def as_found(self, error: float, number: int) -> Vector:
        return self.draws(self.at(error, self.gaps()), number)

    def furthest(self, error: float, number: int) -> Vector:
        return self.draws(self.at(error, self._furthest[1]), number)

    def at(self, error: float, direction: Vector) -> Vector:
        """Gaps along ``direction``, scaled to the true ``error`` or as near as possible."""

        def scaled(t: float) -> Vector:
            return np.clip(t * direction, -self.stated, 1 - self.stated)

        low, high = 0.0, 1.0
        while self.error_of(scaled(high)) < error and high < MOST_GAPS:
            high *= 2
        for _ in range(self.steps if error > 0 else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if self.error_of(scaled(middle)) < error else (low, middle)
        return scaled(low)


class ClusteredError(GapModels):
    """An error over bins or cells, and the noise ``(R, M)`` of clusters in it."""

    steps = 40

    def __init__(self, cells: ResidualSums, noise: Matrix, seed: int) -> None:
        self._cells, self._noise = cells, noise
        self.observed, self.num_draws = cells.observed, len(noise)  # for classes fewer than requested
        self.stated = cells.stated
        self._extra = np.random.default_rng((seed, 5)).standard_normal(noise.shape, dtype=np.float32)

    def gaps(self) -> Vector:
        return self._cells.gaps

    def opposite(self) -> Vector:
        return np.where(self.stated <= 0.5, 1.0, 0.0)

    def error_of(self, gaps: Vector) -> float:
        return self._cells.error_of(gaps)

    def draws(self, gaps: Vector, number: int) -> Vector:
        noise = self._noise[:number]
        return self._cells.error(clustered_sums(self._cells, noise, gaps, self._extra[: len(noise)]))


class OutcomeErrors(GapModels):
    """Models of independent samples, whose outcomes are drawn; the errors of events average.

    Up to ``MOST_UNITS`` outcomes are drawn one by one. For more, the numbers that occur in each bin are
    drawn, except for the smooth error.
    """

    def __init__(
        self, kernel: AtLimitKernel, events: Sequence[Events], found: float, procedure: Procedure
    ) -> None:
        self.observed, self.num_draws, self._seed = found, procedure.num_draws, procedure.seed
        self._events, self._kernel, self._num_bins = events, kernel, procedure.num_bins
        self.plenty = sum(effective_number(each.mass) for each in events) >= PLENTY * procedure.num_bins
        self._ends = np.cumsum([len(each.outcomes) for each in events])[:-1]
        self.stated = np.concatenate([each.confidences for each in events])

    @cached_property
    def _bins(self) -> list[Any]:
        """Sparse matrices ``(B, N)`` that sum over the bins of each event."""
        both = (bin_matrix(each, self._num_bins) for each in self._events)
        mass = self._kernel == "mass l1"
        return [each[self._num_bins :] if mass else each[: self._num_bins] for each in both]

    @cached_property
    def _orders(self) -> list[Indices]:
        return [np.argsort(each.confidences) for each in self._events]

    def gaps(self) -> Vector:
        """Actual rate minus mean probability of each sample's bin."""
        return self._means(np.concatenate([each.outcomes for each in self._events]) - self.stated)

    def opposite(self) -> Vector:
        return (self._means(self.stated) <= 0.5).astype(np.float64)

    def _means(self, values: Vector) -> Vector:
        found: list[Vector] = []
        for event, bins, part in zip(self._events, self._bins, np.split(values, self._ends), strict=True):
            weight, sums = np.asarray(bins.sum(axis=1)).ravel(), np.asarray(bins @ part)
            mean = np.divide(sums, weight, out=np.zeros_like(sums), where=weight > 0)
            shares = bins.T @ mean  # each column of the bins sums to the sample's weight
            found.append(np.divide(shares, event.mass, out=np.zeros_like(shares), where=event.mass > 0))
        return np.concatenate(found)

    def error_of(self, gaps: Vector) -> float:
        parts = enumerate(np.split(gaps, self._ends))
        return float(np.mean([self._errors(place, part[:, None])[0] for place, part in parts]))

    def draws(self, gaps: Vector, number: int) -> Vector:
        drawn, probs = np.zeros(number), np.split(self.stated + gaps, self._ends)
        for place, (event, true) in enumerate(zip(self._events, probs, strict=True)):
            rng = np.random.default_rng(stream_seed(self._seed, Stream.NULL, place))
            if self._kernel != "smooth" and len(true) > MOST_UNITS:
                bins = self._bins[place]
                _, size, draw = grouped_draws(event, bins.tocsc(), true, 1)
                stated = (bins @ event.confidences)[:, None]
                for start, stop in block_bounds(number, SMALL_BLOCK // size):
                    sums = np.abs(draw(rng, stop - start) - stated).sum(axis=0)
                    drawn[start:stop] += sums / event.mass.sum() / len(probs)
                continue
            thresholds = true.astype(np.float32)[:, None]
            for start, stop in block_bounds(number, SMALL_BLOCK // len(true)):
                happens = rng.random((len(true), stop - start), dtype=np.float32) < thresholds
                drawn[start:stop] += self._errors(place, happens - event.confidences[:, None]) / len(probs)
        return drawn

    def _errors(self, place: int, residuals: Matrix) -> Vector:
        """Errors ``(D,)`` of one event with residuals ``(N, D)``."""
        event = self._events[place]
        total = float(event.mass.sum())
        if self._kernel != "smooth":
            return np.abs(self._bins[place] @ residuals).sum(axis=0) / total
        from calibrant._math.lipschitz import lipschitz_values  # compiled

        order = self._orders[place]
        weighted = np.ascontiguousarray((residuals * event.mass[:, None]).T[:, order])
        return lipschitz_values(event.confidences[order], weighted) / total


def error_models(
    kernel: AtLimitKernel, events: Sequence[Events], found: float, procedure: Procedure
) -> ErrorModels:
    """Models that state these events' probabilities; ``found`` is the error of the checked one."""
    if events[0].clusters is None:
        return OutcomeErrors(kernel, events, found, procedure)
    places = [BinnedEvents(event, procedure.num_bins) for event in events]
    seeds = (stream_seed(procedure.seed, Stream.NULL, part) for part in range(len(events)))
    number = procedure.num_draws
    drawn = [draw_null(each, number, seed, num_kept=number) for each, seed in zip(places, seeds, strict=True)]
    return ClusteredError(*noise_of(places, drawn, kernel), procedure.seed)


@dataclass(frozen=True)
class AtLimit:
    """Errors of samples drawn from a model at the limit, compared with the measured one."""

    mean: float
    upper: float
    p_value: float
    num_draws: int


def at_limit(models: ErrorModels, limit: float, *, confidence: float) -> AtLimit:
    r"""Test the hypothesis that the true error is at most ``limit``, by draws from its boundary.

    The model at the limit has the same stated probabilities p. Outcomes occur with probability
    :math:`p+t\,g(p)`, where g is the measured gap in p's bin and t makes the true error equal the limit. A
    limit of zero gives the test against perfect calibration. Errors of few samples are biased upwards, but so
    are the draws. Clusters have these gaps bin by bin, with the noise of whole clusters.
    """
    drawn = models.as_found(limit, models.num_draws)
    return AtLimit(
        mean=float(drawn.mean()),
        upper=float(np.quantile(drawn, confidence)),
        p_value=(1 + int((drawn >= models.observed - ROUNDING).sum())) / (1 + len(drawn)),
        num_draws=len(drawn),
    )
