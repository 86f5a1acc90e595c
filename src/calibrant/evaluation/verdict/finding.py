"""Which way the probabilities err, decided from intervals and from what chance gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant.evaluation.judging.measure import Measured
from calibrant.evaluation.phrases import clearly
from calibrant.evaluation.quantities.accuracy import ACCURACY
from calibrant.evaluation.quantities.ece import ECE
from calibrant.evaluation.quantities.gap import GAP
from calibrant.evaluation.quantities.mean_probability import MEAN_PROBABILITY
from calibrant.evaluation.quantities.prevalence import PREVALENCE
from calibrant.evaluation.resampling.events import Vector
from calibrant.evaluation.resampling.intervals import centred_interval, normal_quantile, wilson_interval
from calibrant.evaluation.result import Direction, Estimate, NullError
from calibrant.evaluation.thresholds import TOLERABLE_GAP, significance

Subject = Literal["decisions", "events"]
Doubt = Literal["few samples", "mixed signs"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The direction, and what it is about."""

    direction: Direction
    real: bool
    """Whether the error is more than chance gives."""
    subject: Subject
    """What errs more: how sure the decisions are, or how probable the positive class or the labels."""
    threshold: float
    """Below it a p-value counts."""
    doubt: Doubt | None = None
    """Why nothing is decided."""


def find(judged: Measured, nulls: tuple[NullError, ...], level: float) -> Finding:
    """Decide the direction.

    The error is real where the calibration error is larger than all but a few of those that a calibrated
    model of this size shows; with two kinds of error (top label and positive class), each is held to half
    that share. Then the interval of mean confidence minus accuracy says which way, unless the mean
    probability of the event is further from its prevalence: that is no matter of confidence. Without a real
    error the probabilities count as calibrated, unless a gap of 5 points could have been missed.
    """
    gap, event_gap = judged.metrics[GAP.key], _event_gap(judged, level)
    gaps = [gap] if event_gap is None else [gap, event_gap]
    tests = [null.p_value for null in nulls if null.metric in {ECE.key, ECE.event_key}]
    threshold = significance(level, len(tests))
    real = min(tests) < threshold
    subject: Subject = "decisions"
    if event_gap is not None and clearly(event_gap) and abs(event_gap.value or 0) > abs(gap.value or 0):
        subject = "events"
    direction: Direction = "miscalibrated"
    doubt: Doubt | None = None
    if real and subject == "decisions" and clearly(gap):
        direction = "over-confident" if clearly(gap) > 0 else "under-confident"
    elif not real:
        if any(clearly(each) for each in gaps):
            doubt = "mixed signs"
        elif _reach(judged, gaps, level) > TOLERABLE_GAP:
            doubt = "few samples"
        direction = "undecided" if doubt else "calibrated"
    return Finding(direction=direction, real=real, subject=subject, threshold=threshold, doubt=doubt)


def count_shifted(judged: Measured, level: float) -> tuple[int, int]:
    """How many labels get probabilities that are on average too high, and too low, beyond chance."""
    scores: list[float] = []
    for event in judged.reduced.events[""]:
        weights: Vector = np.ones_like(event.confidences) if event.weights is None else event.weights
        spread = np.sqrt((weights**2 * event.confidences * (1 - event.confidences)).sum())
        excess = (weights * (event.confidences - event.outcomes)).sum()
        scores.append(excess / spread if spread > 0 else float(np.sign(excess)) * np.inf if excess else 0.0)
    threshold = normal_quantile(level)
    return sum(score > threshold for score in scores), sum(score < -threshold for score in scores)


def _event_gap(judged: Measured, level: float) -> Estimate | None:
    """Mean probability minus prevalence, with its interval."""
    stated, happened = (judged.reduced.values.get(name) for name in (MEAN_PROBABILITY.key, PREVALENCE.key))
    if stated is None or happened is None:
        return None
    value = stated - happened
    replicates = judged.replicates[MEAN_PROBABILITY.key] - judged.replicates[PREVALENCE.key]
    interval = centred_interval(value, replicates, level, GAP.bounds)
    if interval is None:
        return Estimate(value=value)
    return Estimate(value=value, low=interval[0], high=interval[1])


def _reach(judged: Measured, gaps: list[Estimate], level: float) -> float:
    """The largest gap that the data do not exclude; for small samples, Wilson's interval widens it."""
    num_samples = judged.reduced.effective_samples
    reach = 0.0
    for gap, name in zip(gaps, (ACCURACY.key, PREVALENCE.key), strict=False):
        share = judged.reduced.values[name]
        low, high = wilson_interval(min(1.0, share), num_samples, level)
        ends = [gap.low, gap.high, (gap.value or 0.0) + share - low, (gap.value or 0.0) + share - high]
        reach = max(reach, *(abs(end) for end in ends if end is not None))
    return reach
