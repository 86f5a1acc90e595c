"""Power of a gate: the worst model that would pass with this number of samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.evaluation.judging.class_table import ClassTable
from calibrant.evaluation.resampling.at_limit import (
    AtLimitKernel,
    ClusteredError,
    OutcomeError,
    draw_errors,
    probabilities_at,
)
from calibrant.evaluation.resampling.events import Events, Vector
from calibrant.evaluation.resampling.intervals import effective_number
from calibrant.evaluation.resampling.null import ROUNDING
from calibrant.evaluation.resampling.resamples import Stream, stream_seed
from calibrant.evaluation.thresholds import TOLERABLE_GAP

PLENTY = 1600  # samples for each bin: chance gives an error of 0.4 / sqrt(samples per bin) at most, 0.01
MOST_RIGHT = 5000  # samples; of so many an accuracy is known to a point
LEAST_GREATEST = 0.5  # what always happens, or never, is stated with an error of one half or more
FEW_DRAWS = 400  # of a much worse model: whether half of them fail
TENTHS = tuple(k / 10 for k in range(1, 10))


@dataclass(frozen=True)
class UndetectedError:
    """The value of a much worse model that passes more often than not; ``always`` if it cannot fail."""

    value: float
    always: bool


def much_worse(limit: float, greatest: float) -> float:
    """An error of twice the limit, at least 5 points above it, but halfway to the greatest at most."""
    return min(max(2 * limit, limit + TOLERABLE_GAP), (limit + greatest) / 2)


def missed_error(
    error: AtLimitKernel,
    events: Sequence[Events],
    limit: float,
    *,
    num_bins: int,
    num_draws: int,
    confidence: float,
    seed: int,
) -> UndetectedError | None:
    """The worst model that the test of :func:`draw_at_limit` would not tell from one at the limit.

    Looked at are errors of :func:`much_worse` and of further tenths. What is stated stays; what happens moves
    away from it towards the greatest error: always or never, in each bin or throughout. So the answer depends
    on what was stated, and not on what happened. ``None`` where all of these fail in half of the draws.
    """
    if events[0].clusters is not None:
        clustered = ClusteredError.of_events(error, events, num_bins=num_bins, num_draws=num_draws, seed=seed)
        return missed_clustered_error(clustered, limit, confidence=confidence)
    plenty = sum(_number(event) for event in events) >= PLENTY * num_bins
    if plenty and _above(num_draws, confidence) >= 0 and limit < LEAST_GREATEST:
        return None
    measures = [OutcomeError(event, error, num_bins) for event in events]
    never, always = (
        lambda measure: np.zeros_like(measure.stated),
        lambda measure: np.ones_like(measure.stated),
    )
    greatest, away = max(
        (_greatest(measures, outcomes) for outcomes in (OutcomeError.opposite, never, always)),
        key=lambda found: found[0],
    )

    def draws(true_error: float, number: int) -> Vector:
        return draw_errors(measures, probabilities_at(measures, away, true_error), number, seed)

    return _missed(draws, greatest, limit, num_draws=num_draws, confidence=confidence, plenty=plenty)


def missed_clustered_error(
    clustered: ClusteredError, limit: float, *, confidence: float
) -> UndetectedError | None:
    """As :func:`missed_error`, where samples come in clusters."""
    greatest, away = max(((clustered.of(each), each) for each in clustered.directions), key=lambda it: it[0])

    def draws(true_error: float, number: int) -> Vector:
        return clustered.draws(clustered.gaps_at(away, true_error), number)

    number = clustered.num_draws
    return _missed(draws, greatest, limit, num_draws=number, confidence=confidence, plenty=False)


def missed_classwise_error(
    classes: ClassTable, limit: float, *, num_draws: int, confidence: float, seed: int
) -> UndetectedError | None:
    """As :func:`missed_error`, of the class-wise error: more and more of what happens is stated least."""
    clustered = classes.clustered(num_draws, stream_seed(seed, Stream.NULL), confidence)
    if clustered is not None:
        return missed_clustered_error(clustered, limit, confidence=confidence)
    greatest = classes.error_of(classes.furthest_away(1.0))

    def draws(true_error: float, number: int) -> Vector:
        truth = classes.at(true_error, classes.furthest_away)
        return classes.draw_errors(truth, number, stream_seed(seed, Stream.NULL))

    return _missed(draws, greatest, limit, num_draws=num_draws, confidence=confidence, plenty=False)


def _above(num_draws: int, confidence: float) -> int:
    """The largest number of draws at the limit that may exceed a failing error, less one."""
    return math.ceil((1 - confidence) * (1 + num_draws) - ROUNDING) - 2


def _missed(
    draws: Callable[[float, int], Vector],
    greatest: float,
    limit: float,
    *,
    num_draws: int,
    confidence: float,
    plenty: bool,
) -> UndetectedError | None:
    """Largest of some errors that passes half the draws."""
    above = _above(num_draws, confidence)
    if above < 0 or greatest <= limit + ROUNDING:
        return UndetectedError(greatest, always=True)
    if plenty:
        return None
    at_limit = np.sort(draws(limit, num_draws))
    needed = at_limit[-1 - above]
    if greatest <= needed + ROUNDING:
        return UndetectedError(greatest, always=True)
    found = None
    for wrong in _rungs(limit, greatest):
        if np.mean(draws(wrong, min(num_draws, FEW_DRAWS)) > needed + ROUNDING) >= 0.5:
            break
        found = UndetectedError(wrong, always=False)
    return found


def missed_accuracy(least: float, num_samples: float, *, confidence: float) -> UndetectedError | None:
    """The lowest accuracy that a binomial test would not tell from the least that is allowed.

    As :func:`missed_error`, of the share that is wrong.
    """
    from scipy.special import bdtr

    trials = math.floor(num_samples + ROUNDING)
    hits = np.arange(trials + 1.0)
    failing = int((bdtr(hits, trials, least) <= 1 - confidence).sum())  # as many counts of hits
    if failing == 0:
        return UndetectedError(0.0, always=True)
    if trials >= MOST_RIGHT:
        return None
    found = None
    for wrong in _rungs(1 - least, 1.0):
        if bdtr(failing - 1.0, trials, 1 - wrong) >= 0.5:
            break
        found = UndetectedError(round(1 - wrong, 12), always=False)
    return found


def _greatest(
    measures: Sequence[OutcomeError], outcomes: Callable[[OutcomeError], Vector]
) -> tuple[float, list[Vector]]:
    """The error for these outcomes, and the direction to them from what is stated."""
    worst = [outcomes(measure) for measure in measures]
    errors = [measure(w[:, None])[0] for measure, w in zip(measures, worst, strict=True)]
    return float(np.mean(errors)), [w - m.stated for m, w in zip(measures, worst, strict=True)]


def _rungs(limit: float, greatest: float) -> list[float]:
    """Errors to try, from the smallest."""
    first = much_worse(limit, greatest)
    return [first, *(tenth for tenth in TENTHS if first < tenth < greatest)]


def _number(event: Events) -> float:
    return len(event.confidences) if event.weights is None else effective_number(event.weights)
