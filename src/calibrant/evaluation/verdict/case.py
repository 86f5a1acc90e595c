"""Inputs of a verdict, and the findings: direction, doubt, and the arm to recommend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from calibrant._math.text_form import of_kind, plural
from calibrant.evaluation.fitting.templates import UNCALIBRATED, Recommendation
from calibrant.evaluation.judging.measure import Measured
from calibrant.evaluation.judging.reduce import effective_number_of
from calibrant.evaluation.phrases import clearly
from calibrant.evaluation.quantities import (
    ACCURACY,
    CLASSWISE_ECE,
    ECE,
    GAP,
    MEAN_PROBABILITY,
    NLL,
    PREVALENCE,
    SLOPE,
)
from calibrant.evaluation.quantity import EVENT
from calibrant.evaluation.resampling.intervals import (
    TOLERABLE_GAP,
    beyond_chance,
    centred_interval,
    wilson_interval,
)
from calibrant.evaluation.result import (
    Arm,
    ClassRow,
    Direction,
    Estimate,
    Kind,
    NullError,
    Part,
    PartName,
    Range,
    between,
)
from calibrant.predictions.labels import POSITIVE_CLASS

HALF_A_POINT, TENTH = 0.005, 0.1
FEW_SAMPLES = 30  # a verdict on fewer says so in its first words
ERRORS: dict[str, str] = {"classes": CLASSWISE_ECE.key, "positive class": ECE.event_key}
"""Key of each part's error; the ECE for others."""
MAIN: frozenset[PartName] = frozenset({"top label", "positive class", "labels"})  # parts with a direction
Doubt = Literal["few samples", "mixed signs"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Inputs of a verdict, and the findings."""

    kind: Kind
    arms: Sequence[Arm]
    uncalibrated: Measured
    recommendation: Recommendation | None
    level: float
    num_calibration: int
    num_test: int
    cross_fitted: bool
    warnings: tuple[str, ...] = ()  # likely mistakes in the data
    tolerance: float | None = None  # of calibration errors; None: the default
    effective_calibration: float | None = None  # by their weights; None: as many as there are
    one_class: bool  # whether the calibration samples hold a single class

    @property
    def useless(self) -> bool:
        """True if the probabilities tell no more than the class frequencies."""
        return bool(of_kind(self.warnings, "useless"))

    @property
    def first(self) -> Arm:
        return self.arms[0]

    @cached_property
    def picked(self) -> Arm:
        name = UNCALIBRATED if self.recommendation is None else self.recommendation.name
        return next(arm for arm in self.arms if arm.name == name)

    @cached_property
    def refuted(self) -> bool:
        """True if the test samples contradict the choice.

        Its NLL is clearly worse there; or it is worse within noise, and no calibration error is clearly
        better, as happens if nearly all samples are right and a few made the choice.
        """
        before, after = self.first.metrics[NLL.key].value, self.picked.metrics[NLL.key].value
        if self.picked is self.first or before is None or (after is not None and after <= before):
            return False
        error = ECE.event_key if self.kind == "binary" else ECE.key
        change = self.picked.change.get(error)
        return self.clearly_worse or change is None or clearly(change) >= 0

    @property
    def clearly_worse(self) -> bool:
        """True if the NLL of the arm chosen is worse on the test samples beyond noise."""
        return self.picked.metrics[NLL.key].value is None or clearly(self.picked.change[NLL.key]) > 0

    @property
    def chosen(self) -> Arm:
        return self.first if self.refuted else self.picked

    @property
    def repaired(self) -> bool:
        return self.chosen is not self.first

    @property
    def too_few(self) -> bool:
        """True if calibrators were tried, but on too few samples to choose among them."""
        return self.recommendation is None and len(self.arms) > 1

    @property
    def on_few(self) -> str:
        """`` on 3 samples`` if there are so few that the reader must know; else empty."""
        return f" on {plural(self.num_test, 'sample')}" if self.num_test < FEW_SAMPLES else ""

    @property
    def fitted_on(self) -> str:
        """``1 calibration sample``."""
        told = plural(self.num_calibration, "calibration sample")
        effective = self.effective_calibration
        if effective is None or effective >= self.num_calibration - 0.05:
            return told
        return f"{told} of an effective size of {effective:.1f}"

    def tolerated(self, metric: str) -> float:
        if self.tolerance is not None:
            return self.tolerance
        rate = 1.0
        prevalence = self.first.metrics.get(PREVALENCE.key)
        if self.kind in {"binary", "multilabel"} and prevalence is not None and prevalence.value is not None:
            rate = min(prevalence.value, 1 - prevalence.value)
        elif metric == CLASSWISE_ECE.key:
            rate = 1 / max(1, len(self.first.classes))
        return min(HALF_A_POINT, TENTH * rate)

    def within(self, arm: Arm) -> float | None:
        """The tolerated error, if every error of an arm above noise is below it with its whole interval."""
        failing = [part.name for part in arm.parts if not part.holds]
        keys = [ERRORS.get(name, ECE.key) for name in failing]
        if not failing or "groups" in failing or not all(key in arm.metrics for key in keys):
            return None
        limits = [self.tolerated(key) for key in keys]
        ends = [arm.metrics[key].high for key in keys]
        small = all(end is not None and end < limit for end, limit in zip(ends, limits, strict=True))
        return min(limits) if small else None

    @cached_property
    def tolerable(self) -> float | None:
        """The tolerated error, if every error of the uncalibrated predictions is real, but below it."""
        return self.within(self.first)

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.first.parts

    @cached_property
    def failing(self) -> tuple[PartName, ...]:
        return () if self.tolerable else tuple(part.name for part in self.parts if not part.holds)

    @property
    def real(self) -> bool:
        return bool(self.failing)

    @cached_property
    def event_gap(self) -> Estimate | None:
        judged = self.uncalibrated
        stated, happened = (judged.reduced.values.get(each.key) for each in (MEAN_PROBABILITY, PREVALENCE))
        if stated is None or happened is None:
            return None
        replicates = judged.replicates[MEAN_PROBABILITY.key] - judged.replicates[PREVALENCE.key]
        value = stated - happened
        return between(value, centred_interval(value, replicates, self.level, GAP.bounds))

    @property
    def event(self) -> str | None:
        name = self.first.curves[0].name if self.has_event and self.first.curves else POSITIVE_CLASS
        return None if name == POSITIVE_CLASS else name

    @property
    def has_event(self) -> bool:
        return EVENT in self.uncalibrated.reduced.events

    @cached_property
    def of_events(self) -> bool:
        """True if the probability of the positive class or labels is further off than the confidence."""
        gap, event_gap = self.uncalibrated.metrics[GAP.key], self.event_gap
        if event_gap is None:
            return False
        return self.has_event or (
            bool(clearly(event_gap)) and abs(event_gap.value or 0) > abs(gap.value or 0)
        )

    @cached_property
    def doubt(self) -> Doubt | None:
        """Reason for doubt if the test of the event passes."""
        failing = {part.name for part in self.parts if not part.holds}
        if self.tolerable is not None or failing & MAIN:
            return None
        reduced, event = self.uncalibrated.reduced, self.event_gap
        gaps = {} if self.has_event else {ACCURACY.key: self.uncalibrated.metrics[GAP.key]}
        gaps |= {} if event is None else {PREVALENCE.key: event}
        if any(clearly(gap) for gap in gaps.values()):
            return "mixed signs"
        reach = 0.0  # largest gap that the data do not exclude
        for name, gap in gaps.items():
            share, value = reduced.values[name], gap.value or 0.0
            low, high = wilson_interval(min(1.0, share), effective_number_of(reduced, name), self.level)
            ends = [gap.low, gap.high, value + share - low, value + share - high]
            reach = max(reach, *(abs(end) for end in ends if end is not None))
        return "few samples" if reach > TOLERABLE_GAP else None

    @cached_property
    def direction(self) -> Direction:
        """The direction of the error, from the parts that do not hold.

        If the event does not hold, the interval of its mean probability minus its rate gives the direction;
        if that contains zero, the calibration slope does. For top labels and several labels, mean
        confidence minus accuracy does, unless the labels' mean probability is further from their rate. If
        only the classes do not hold, the model is calibrated in part. If all hold, it counts as calibrated,
        unless a gap of 5 points could have been missed.
        """
        if self.tolerable is not None:
            return "calibrated"
        if not self.failing:
            return "undecided" if self.doubt else "calibrated"
        if MAIN.isdisjoint(self.failing):
            return "miscalibrated" if self.doubt else "calibrated in part"
        metrics = self.uncalibrated.metrics
        gap = self.event_gap if self.of_events and self.event_gap is not None else metrics[GAP.key]
        if sign := clearly(gap):
            if self.of_events:
                return "over-predicting" if sign > 0 else "under-predicting"
            return "over-confident" if sign > 0 else "under-confident"
        slope = metrics.get(SLOPE.event_key, Estimate(value=None))  # of an event that is right on average
        if slope.high is not None and slope.high < 1:
            return "over-confident"
        if slope.low is not None and slope.low > 1:
            return "under-confident"
        return "miscalibrated"

    @cached_property
    def about(self) -> str:
        """The key of the error that the headline is about: of the event or top label, or of the classes."""
        if self.kind == "binary":
            return ECE.event_key
        partly = self.direction in {"calibrated in part", "miscalibrated"}
        if partly and "classes" in self.failing and null_of(self.first, CLASSWISE_ECE.key) is not None:
            return CLASSWISE_ECE.key
        return ECE.key

    @property
    def spoken_of(self) -> tuple[str, ...]:
        if self.kind == "binary":
            return (ECE.event_key,)
        return (ECE.key, CLASSWISE_ECE.key) if self.kind == "multiclass" else (ECE.key,)

    @property
    def where(self) -> Range | None:
        return next((part.where for part in self.parts if not part.holds), None)

    @property
    def slope_key(self) -> str:
        return SLOPE.event_key if self.kind == "binary" else SLOPE.key

    def slope_off(self, arm: Arm) -> float | None:
        """The calibration slope, if it differs from 1 beyond noise."""
        slope = arm.metrics.get(self.slope_key)
        return slope.value if slope is not None and clearly(slope, 1) else None

    @cached_property
    def furthest_off(self) -> ClassRow:
        """The class whose mean probability is furthest from its rate, beyond noise if there is one."""

        def off(row: ClassRow) -> tuple[bool, float]:
            return is_shifted(row, self.level), abs(row.mean_probability - row.prevalence)

        return max(self.first.classes, key=off)

    @cached_property
    def num_shifted(self) -> tuple[int, int]:
        """Numbers of classes whose average probability is too high, and too low, beyond noise."""
        rows = [row for row in self.first.classes if is_shifted(row, self.level)]
        shifted = [row.mean_probability - row.prevalence for row in rows]
        return sum(excess > 0 for excess in shifted), sum(excess < 0 for excess in shifted)


def is_shifted(row: ClassRow, level: float) -> bool:
    """True if the average probability of a class is off beyond noise, corrected for all classes."""
    return row.adjusted_p is not None and beyond_chance(row.adjusted_p, level)


def null_of(arm: Arm, metric: str) -> NullError | None:
    return next((null for null in arm.null if null.metric == metric), None)
