"""Decisions on values against limits and a baseline, and their sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from calibrant._math.errors import InputError
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.gate.result import Check, Outcome
from calibrant.evaluation.judging.at_limit import (
    AtLimit,
    AtLimitKernel,
    ErrorModels,
    at_limit,
    error_models,
)
from calibrant.evaluation.judging.measure import Measured, change, main_events, measure
from calibrant.evaluation.judging.noise import Noise, draw_noise
from calibrant.evaluation.phrases import decimals_apart, number
from calibrant.evaluation.quantities import ECE, NLL, with_gate
from calibrant.evaluation.quantity import EVENT, Gate, Kind, Quantity
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.resampling.intervals import TOLERABLE_GAP, beyond_chance, highest_share, too_few
from calibrant.evaluation.resampling.null import ROUNDING
from calibrant.evaluation.result import Estimate
from calibrant.evaluation.source import ModelSamples, alarms
from calibrant.predictions.labels import POSITIVE_CLASS, event_title, the_event

MOST_RIGHT = 5000  # samples; of so many an accuracy is known to a point
LEAST_GREATEST = 0.5  # outcomes that always, or never, occur give an error of one half or more
FEW_DRAWS = 400  # of a much worse model, to see if half of them fail
TENTHS = tuple(k / 10 for k in range(1, 10))


@dataclass(frozen=True)
class UndetectedError:
    """The value of a much worse model that passes more often than not; ``always`` if it cannot fail."""

    value: float
    always: bool


def undetected(models: ErrorModels, limit: float, *, confidence: float) -> UndetectedError | None:
    """The largest error that the test of :func:`at_limit` would mostly miss; ``None`` if there is none.

    Outcomes move away from the stated probabilities towards the greatest error, so the measured outcomes do
    not matter.
    """
    num_draws = models.num_draws
    # The largest number of draws at the limit that may exceed a failing error, less one.
    above = math.ceil((1 - confidence) * (1 + num_draws) - ROUNDING) - 2
    if models.plenty and above >= 0 and limit < LEAST_GREATEST:
        return None
    greatest = models.greatest
    if above < 0 or greatest <= limit + ROUNDING:
        return UndetectedError(greatest, always=True)
    if models.plenty:
        return None
    at_limit = np.sort(models.furthest(limit, num_draws))
    needed = at_limit[-1 - above]
    if greatest <= needed + ROUNDING:
        return UndetectedError(greatest, always=True)
    found = None
    for wrong in _rungs(limit, greatest):
        if np.mean(models.furthest(wrong, min(num_draws, FEW_DRAWS)) > needed + ROUNDING) >= 0.5:
            break
        found = UndetectedError(wrong, always=False)
    return found


def missed_accuracy(least: float, num_samples: float, *, confidence: float) -> UndetectedError | None:
    """The lowest accuracy that a binomial test would mostly not distinguish from ``least``."""
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


def _rungs(limit: float, greatest: float) -> list[float]:
    """Errors to try: twice the limit, at least 5 points above it, at most halfway to the greatest; tenths."""
    first = min(max(2 * limit, limit + TOLERABLE_GAP), (limit + greatest) / 2)
    return [first, *(tenth for tenth in TENTHS if first < tenth < greatest)]


@dataclass(frozen=True, kw_only=True)
class GatedQuantity:
    """One gated quantity; errors of binary models are those of the positive class."""

    metric: str  # the key that was asked for
    form: Quantity  # which stands in the table under its own key
    gate: Gate
    kind: Kind

    @classmethod
    def of(cls, metric: str, kind: Kind) -> GatedQuantity:
        quantity = with_gate()[metric]
        forms = quantity.forms(kind)
        if not forms or quantity.gate is None:
            raise InputError(f"{metric} cannot be checked: {kind} predictions do not have it.")
        return cls(metric=metric, form=forms[0], gate=quantity.gate, kind=kind)

    @classmethod
    def with_limit(cls, metric: str, kind: Kind, limit: float) -> GatedQuantity:
        """The quantity, if it can have this limit."""
        asked = cls.of(metric, kind)
        if asked.gate.help is None:
            raise InputError(f"there is no limit for {metric}; compare it with a baseline.")
        if not limit >= 0:
            raise InputError(f"the limit of {metric} must be 0 or more; got {limit:g}.")
        if limit > 1 and asked.form.bounds[1] == 1:
            raise InputError(
                f"the limit of {metric} must be between 0 and 1; got {limit:g}; "
                f"use {limit / 100:g} for {limit:g}%."
            )
        return asked

    @property
    def is_error(self) -> bool:
        return self.form.computed.is_error

    @property
    def _classwise(self) -> bool:
        return self.is_error and not self.form.computed.of_events

    @property
    def of_classes(self) -> bool:
        """True for an error over mutually exclusive classes."""
        return self._classwise and self.kind == "multiclass"

    @property
    def drawn(self) -> bool:
        """True if it is drawn for a model at a limit; else an interval decides."""
        return self.of_classes or self.kernel is not None

    @property
    def prefix(self) -> str:
        if self._classwise and self.kind == "binary":
            return EVENT  # both classes are off by as much as the positive one
        return self.form.prefix

    @property
    def kernel(self) -> AtLimitKernel | None:
        by_events = self._classwise and not self.of_classes  # which stand for the classes
        kernel = (ECE if by_events else self.form).computed.kernel
        return next((known for known in get_args(AtLimitKernel) if known == kernel), None)

    @property
    def binomial(self) -> bool:
        """True for a proportion of independent samples that is better if larger."""
        return self.form.share and self.form.sign < 0 and self.kind != "multilabel"

    @property
    def about(self) -> str:
        """``positive class``, ``labels``, ``top label``, ``decisions`` or ``all classes``."""
        if self.is_error and self.kind == "multilabel":
            return "labels"
        if self.is_error and not self._classwise:
            return "positive class" if self.form.prefix else "top label"
        return "decisions" if self.form.share else "all classes"

    def named(self, event: str) -> str:
        """``calibration error (ECE) of the positive class``, or of the event's own name."""
        about = {POSITIVE_CLASS: the_event(event), "labels": "the labels"}.get(self.about)
        return self.gate.name if about is None else f"{self.gate.name} of {about}"


@dataclass(frozen=True)
class Decision:
    """Decision on one value."""

    asked: GatedQuantity
    kind: Literal["limit", "baseline"]
    value: float | None  # None: infinite
    against: float | None  # the limit, or the baseline's value
    outcome: Outcome
    threshold: float | None = None  # bound of the value, or of the difference, that decided
    drawn: bool = False  # by draws from a model at the limit
    at_limit: AtLimit | None = None
    missed: UndetectedError | None = None  # a much worse model that would pass as well
    paired: bool = False


class CheckedSamples:
    """The checked samples; slow steps are computed on demand."""

    def __init__(self, subject: ModelSamples, procedure: Procedure, confidence: float, strict: bool) -> None:
        self._subject = subject
        self._procedure = procedure
        self._confidence = confidence
        self._strict = strict
        self._num_samples = subject.samples.num_tested
        self._event = event_title(subject.labels)
        self._reduced = subject.reduced(procedure.metrics)
        self.warnings = alarms(subject.test, self._reduced)

    @property
    def main_events(self) -> tuple[Events, ...]:
        return main_events(self._reduced)

    def limit(self, metric: str, limit: float) -> Check:
        asked = GatedQuantity.with_limit(metric, self._subject.kind, limit)
        return self._worded(self._against_limit(asked, limit))

    def against(self, other: ModelSamples, metrics: Sequence[str], *, paired: bool) -> Iterator[Check]:
        reduced = other.reduced(self._procedure.metrics)
        judged = measure(reduced, self._procedure, part=0 if paired else 1)
        changes = change(self._measured, judged, self._procedure.level, paired=paired)
        few = too_few(min(each.effective_samples for each in (self._reduced, reduced)), self._procedure.level)
        default = [ECE.key] if self._subject.kind == "top_label" else [ECE.key, NLL.key]
        for metric in metrics or default:
            asked = GatedQuantity.of(metric, self._subject.kind)
            if asked.is_error and not asked.drawn and not paired:
                raise InputError(f"{metric} needs a baseline on the same samples.")
            found = self._against_baseline(
                asked, reduced.values.get(asked.form.key), changes.get(asked.form.key), paired=paired
            )
            if few and found.outcome != "fail":
                found = replace(found, missed=UndetectedError(math.inf, always=True))
            yield self._worded(found)

    def _against_limit(self, asked: GatedQuantity, limit: float) -> Decision:
        sign, value = asked.form.sign, self._value(asked.form.key)
        found = Decision(asked, "limit", value, limit, "pass", drawn=self._drawn(asked, limit))
        if value is None:
            return replace(found, outcome="fail")
        if sign * (value - limit) <= ROUNDING:
            return replace(found, missed=self._missed(asked, limit))
        if found.drawn:
            at_limit = self._draw(asked, limit)
            found = replace(found, threshold=at_limit.upper, at_limit=at_limit)
            beyond = beyond_chance(at_limit.p_value, self._confidence)
        else:
            bound = self._bound(asked, value)
            found = replace(found, threshold=bound)
            beyond = bound is not None and sign * (bound - limit) > 0
        if beyond:
            return replace(found, outcome="fail")
        return replace(found, outcome="within noise", missed=self._missed(asked, limit))

    def _against_baseline(
        self, asked: GatedQuantity, base: float | None, difference: Estimate | None, *, paired: bool
    ) -> Decision:
        sign, value = asked.form.sign, self._value(asked.form.key)
        found = Decision(asked, "baseline", value, base, "pass", paired=paired)
        if value is None or base is None:
            return replace(found, outcome="fail" if value is None and base is not None else "pass")
        if sign * (value - base) <= ROUNDING or difference is None:
            return found
        bound = difference.low if sign > 0 else difference.high
        found = replace(found, threshold=bound)
        beyond = bound is not None and sign * bound > 0
        if beyond and not paired and self._drawn(asked, base):
            # Noise adds more error to fewer samples, which no resampling takes away.
            at_limit = self._draw(asked, base)
            found = replace(found, at_limit=at_limit)
            beyond = beyond_chance(at_limit.p_value, self._confidence)
        return replace(found, outcome="fail" if beyond else "within noise")

    def _worded(self, found: Decision) -> Check:
        asked, missed = found.asked, found.missed
        lenient = found.outcome == "pass" or (found.outcome == "within noise" and not self._strict)
        said = f"The {asked.named(self._event)} is {self._compared(found)}"
        if missed is not None and (found.outcome == "pass" or not self._strict):
            said = f"{said} {self._caveat(found, missed)}"
        return Check(
            metric=asked.metric,
            key=asked.form.key,
            about=asked.about,
            kind=found.kind,
            value=found.value,
            against=found.against,
            threshold=found.threshold,
            p_value=None if found.at_limit is None or found.kind == "baseline" else found.at_limit.p_value,
            outcome=found.outcome,
            conclusive=missed is None,
            would_pass=None if missed is None or missed.always else missed.value,
            passed=lenient and not (self._strict and missed is not None),
            sentence=said,
        )

    def _missed(self, asked: GatedQuantity, limit: float) -> UndetectedError | None:
        """A model much worse than the limit that would still pass."""
        samples, procedure = self._reduced.effective_samples, self._procedure
        models = self._models(asked)
        if models is not None:
            return undetected(models, limit, confidence=self._confidence)
        if self._binomial(asked):
            return missed_accuracy(limit, samples, confidence=self._confidence)
        return UndetectedError(math.inf, always=True) if too_few(samples, procedure.level) else None

    def _drawn(self, asked: GatedQuantity, limit: float) -> bool:
        """True if draws decide; classes known by their sums are drawn under calibration only."""
        return asked.drawn and not (asked.of_classes and self._reduced.class_table is None and limit > 0)

    def _bound(self, asked: GatedQuantity, value: float) -> float | None:
        """One-sided bound of a mean; binomial for a proportion."""
        samples = self._reduced.effective_samples
        if self._binomial(asked):
            return highest_share(value, samples, self._confidence)
        if too_few(samples, self._procedure.level):
            return None
        estimate = self._measured.metrics[asked.form.key]
        return estimate.low if asked.form.sign > 0 else estimate.high

    def _binomial(self, asked: GatedQuantity) -> bool:
        """True for a share of independent samples; with clusters, resamples give the bound."""
        return asked.binomial and self._reduced.clusters is None

    def _value(self, key: str) -> float | None:
        """The value, or ``None`` if infinite; raises if it is not known."""
        value = self._reduced.values.get(key)
        if value is None and not np.isinf(self._reduced.ratios.get(key, (0.0,))[0]).any():
            raise InputError(f"{key} cannot be checked: {self._reduced.reasons[key]}.")
        return value

    def _draw(self, asked: GatedQuantity, limit: float) -> AtLimit:
        if limit > 0 and (models := self._models(asked)) is not None:
            return at_limit(models, limit, confidence=self._confidence)
        # Perfect calibration: the draws of the null distribution.
        errors, null = self._noise.errors(asked.form), self._noise.null(asked.form)
        if errors is None or null is None:
            raise InputError(f"{asked.metric} cannot be checked: its errors under calibration are not drawn.")
        upper = float(np.quantile(errors, self._confidence))
        return AtLimit(mean=null.mean, upper=upper, p_value=null.p_value, num_draws=null.num_draws)

    def _models(self, asked: GatedQuantity) -> ErrorModels | None:
        """Models to draw errors from; ``None`` for means, and for classes known only by their sums."""
        procedure, found = self._procedure, self._reduced.values.get(asked.form.key, 0.0)
        if asked.of_classes and self._reduced.class_table is not None:
            return self._reduced.class_table.error_models(found, procedure)
        if asked.kernel is None:
            return None
        return error_models(asked.kernel, self._reduced.events[asked.prefix], found, procedure)

    @cached_property
    def _noise(self) -> Noise:
        return draw_noise(self._reduced, self._procedure)

    @cached_property
    def _measured(self) -> Measured:
        return measure(self._reduced, self._procedure)

    def _compared(self, found: Decision) -> str:
        """The value beside its limit, or beside the baseline's value."""
        form, value, other = found.asked.form, found.value, found.against
        digits = None if value is None or other is None else decimals_apart(value, other)
        shown, passes = "infinity" if value is None else number(value, digits), found.outcome == "pass"
        if found.kind == "baseline":
            base = "infinity" if other is None else number(other, digits)
            other_model = f"the baseline's {base} ({'same samples' if found.paired else 'unpaired'})"
            said = f"{shown}, {'no worse' if passes else 'worse'} than {other_model}."
        elif value is None:
            least = "most" if form.sign > 0 else "least"
            return f"{self._reduced.reasons[form.key]}; at {least} {other or 0.0:g} is allowed."
        else:
            side = "within" if passes else "above" if form.sign > 0 else "below"
            said = f"{shown}, {side} the limit of {other or 0.0:g}."
        return said if passes or value is None else f"{said} {self._why(found)}."

    def _why(self, found: Decision) -> str:
        judgement = "This is more than noise"
        if found.outcome != "fail":
            judgement = "This could be noise, " + (
                "but the gate is strict" if self._strict else "so it passes"
            )
        confidence = f"{100 * self._confidence:.4g}%"
        if found.at_limit is not None:
            drawn = found.at_limit
            sign = "≤" if drawn.p_value <= 1 / (1 + drawn.num_draws) else "="
            return (
                f"{judgement}: a model with a true error of {found.against:.4g} stays below "
                f"{number(drawn.upper)} on {self._num_samples:,} samples in {confidence} of cases "
                f"(p {sign} {drawn.p_value:.2g})"
            )
        if found.threshold is None:
            return f"{judgement}: no interval can be computed"
        sign = found.asked.form.sign
        could, end = "is", f"at {'least' if sign > 0 else 'most'} {number(found.threshold)}"
        if found.kind == "baseline":
            size = number(abs(found.threshold))
            could, end = "could be", f"better by up to {size}"
            if sign * found.threshold > 0:
                could, end = "is", f"worse by at least {size}"
        return f"{judgement}: it {could} {end} ({confidence} confidence)"

    def _caveat(self, found: Decision, missed: UndetectedError) -> str:
        asked, limit = found.asked, found.against or 0.0
        told = f"{self._num_samples:,} samples are too few"
        if found.drawn:
            if (1 + self._procedure.num_draws) * (1 - self._confidence) < 1 - ROUNDING:
                told = f"{self._procedure.num_draws} draws are too few"
            elif missed.value <= limit + ROUNDING:
                told = f"With these probabilities no error can exceed {missed.value:.2g}"
        elif found.kind == "limit" and asked.form.share and limit == 0:
            told = f"No {asked.gate.name} is less than 0"
        what = "error" if asked.is_error else asked.metric
        worse = f"a model with a true {what} of {missed.value:.2g}"
        passes = "any model would pass" if missed.always else f"{worse} would pass more often than not"
        strict = ", so the strict gate fails: otherwise" if self._strict else ":"
        return f"{told}{strict} {passes}."
