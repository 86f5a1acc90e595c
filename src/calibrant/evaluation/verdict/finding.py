"""Passing and failing tests, and the direction of the error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from calibrant.calibrators.roster import CALIBRATORS
from calibrant.evaluation.judging.measure import Measured
from calibrant.evaluation.judging.reduce import effective_number_of
from calibrant.evaluation.phrases import clearly, number
from calibrant.evaluation.quantities import (
    ACCURACY,
    CLASSWISE_ECE,
    ECE,
    GAP,
    MEAN_PROBABILITY,
    PREVALENCE,
    SLOPE,
)
from calibrant.evaluation.quantity import EVENT
from calibrant.evaluation.resampling.intervals import centred_interval, wilson_interval
from calibrant.evaluation.result import Arm, ClassRow, Direction, Estimate, Kind, NullError, Part, PartName
from calibrant.evaluation.thresholds import TOLERABLE_GAP, beyond_chance
from calibrant.evaluation.verdict.case import Case

Subject = Literal["decisions", "events"]
Doubt = Literal["few samples", "mixed signs"]
MAIN: frozenset[PartName] = frozenset({"top label", "positive class", "labels"})
"""The parts whose error has a direction."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The direction of the error, and the probabilities that it is about."""

    direction: Direction
    parts: tuple[Part, ...]  # event or top label, and classes: what holds, and what does not
    subject: Subject
    """What is further off: confidence in decisions, or the probability of the positive class or labels."""
    doubt: Doubt | None = None  # why nothing is decided
    within: float | None = None  # the tolerated error, if every error above noise is below it

    @property
    def real(self) -> bool:
        return bool(self.failing)

    @property
    def failing(self) -> tuple[PartName, ...]:
        return () if self.within else tuple(part.name for part in self.parts if not part.holds)

    @property
    def holding(self) -> tuple[PartName, ...]:
        return tuple(part.name for part in self.parts if part.holds)


def find(judged: Measured, parts: tuple[Part, ...], level: float) -> Finding:
    """Decide the direction from the parts that do not hold.

    If the event does not hold, the interval of its mean probability minus its rate gives the direction; if
    that contains zero, the calibration slope does. Of top labels and of several labels, mean confidence minus
    accuracy does, unless the labels' mean probability is further from their rate. If only the classes do not
    hold, the model is calibrated in part. If all hold, it counts as calibrated, unless a gap of 5 points
    could have been missed.
    """
    gap, event_gap = judged.metrics[GAP.key], _event_gap(judged, level)
    binary = EVENT in judged.reduced.events
    gaps = [gap] if event_gap is None else [event_gap] if binary else [gap, event_gap]
    subject: Subject = "decisions"
    if event_gap is not None and (
        binary or (clearly(event_gap) and abs(event_gap.value or 0) > abs(gap.value or 0))
    ):
        subject = "events"
    failing = {part.name for part in parts if not part.holds}
    direction: Direction = "miscalibrated"
    doubt: Doubt | None = None
    if failing & MAIN:
        direction = _direction(judged, gaps[-1] if subject == "events" else gap, subject)
    else:
        if any(clearly(each) for each in gaps):
            doubt = "mixed signs"
        elif _reach(judged, gaps, level) > TOLERABLE_GAP:
            doubt = "few samples"
        if not failing:
            direction = "undecided" if doubt else "calibrated"
        elif not doubt:
            direction = "calibrated in part"
    return Finding(direction=direction, parts=parts, subject=subject, doubt=doubt)


def _direction(judged: Measured, gap: Estimate, subject: Subject) -> Direction:
    """Direction of the error; of an event that is right on average, from its slope."""
    if sign := clearly(gap):
        if subject == "events":
            return "over-predicting" if sign > 0 else "under-predicting"
        return "over-confident" if sign > 0 else "under-confident"
    slope = judged.metrics.get(SLOPE.event_key)
    if slope is not None and slope.low is not None and slope.high is not None:
        if slope.high < 1:
            return "over-confident"
        if slope.low > 1:
            return "under-confident"
    return "miscalibrated"


def count_shifted(rows: Sequence[ClassRow], level: float) -> tuple[int, int]:
    """Numbers of classes whose average probability is too high, and too low, beyond noise."""
    shifted = [row.mean_probability - row.prevalence for row in rows if is_shifted(row, level)]
    return sum(excess > 0 for excess in shifted), sum(excess < 0 for excess in shifted)


def is_shifted(row: ClassRow, level: float) -> bool:
    """True if the average probability of a class is off beyond noise, corrected for all classes."""
    return row.adjusted_p is not None and beyond_chance(row.adjusted_p, level)


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
    """Largest gap that the data do not exclude."""
    reach = 0.0
    names = (ACCURACY.key, PREVALENCE.key)[-len(gaps) if EVENT in judged.reduced.events else 0 :]
    for gap, name in zip(gaps, names, strict=False):
        share = judged.reduced.values[name]
        low, high = wilson_interval(min(1.0, share), effective_number_of(judged.reduced, name), level)
        ends = [gap.low, gap.high, (gap.value or 0.0) + share - low, (gap.value or 0.0) + share - high]
        reach = max(reach, *(abs(end) for end in ends if end is not None))
    return reach


def spoken_of(kind: Kind) -> tuple[str, ...]:
    """Keys of the errors that sentences are about."""
    if kind == "multiclass":
        return (ECE.key, CLASSWISE_ECE.key)
    return (ECE.event_key,) if kind == "binary" else (ECE.key,)


def error_name(metric: str) -> str:
    """The error's name as in the table."""
    return "classwise ECE" if metric == CLASSWISE_ECE.key else "ECE"


def title(arm: Arm) -> str:
    """The arm's title within a sentence; people keep their capitals."""
    return title_within(arm.name, arm.title)


def title_within(name: str, title: str) -> str:
    method = CALIBRATORS.get(name.partition("(")[0])
    if method is not None and method.named_after_person:
        return title
    return title[:1].lower() + title[1:]


def null_of(arm: Arm, metric: str) -> NullError | None:
    return next((null for null in arm.null if null.metric == metric), None)


def value_of(estimate: Estimate) -> str:
    """The number, or why it is infinite."""
    if estimate.value is not None:
        return number(estimate.value)
    return f"infinity ({(estimate.reason or '').removeprefix('infinite: ')})"


def class_name(row: ClassRow, noun: str = "class") -> str:
    """The name, or ``class 3`` where there is none but the number."""
    return f"{noun} {row.name}" if row.name.isdecimal() else row.name


def furthest_off(case: Case) -> ClassRow:
    """The class whose mean probability is furthest from its prevalence, beyond chance if there is one."""
    return max(
        case.first.classes,
        key=lambda row: (is_shifted(row, case.level), abs(row.mean_probability - row.prevalence)),
    )


def error_of(case: Case, finding: Finding) -> str:
    """The key of the error that the headline is about: of the event or top label, or of the classes."""
    if case.kind == "binary":
        return ECE.event_key
    partly = finding.direction in {"calibrated in part", "miscalibrated"}
    if partly and "classes" in finding.failing and null_of(case.first, CLASSWISE_ECE.key) is not None:
        return CLASSWISE_ECE.key
    return ECE.key
