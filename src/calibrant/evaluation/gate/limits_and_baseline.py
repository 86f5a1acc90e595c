"""Values held against limits and against a baseline, one check after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from calibrant._math.errors import InputError
from calibrant.evaluation.gate.power import Missed, missed_accuracy, missed_classwise_error, missed_error
from calibrant.evaluation.gate.question import Question
from calibrant.evaluation.gate.result import Check, Outcome
from calibrant.evaluation.judging.class_table import ClassTable
from calibrant.evaluation.judging.measure import Measured, change, measure
from calibrant.evaluation.judging.noise import Noise, draw_noise
from calibrant.evaluation.judging.parts import main_events
from calibrant.evaluation.phrases import decimals_apart, number
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.quantities import ECE, NLL
from calibrant.evaluation.resampling.at_limit import AtLimit, at_limit_of, draw_at_limit
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.resampling.intervals import highest_share, too_few
from calibrant.evaluation.resampling.null import ROUNDING
from calibrant.evaluation.resampling.resamples import Stream, stream_seed
from calibrant.evaluation.source import ModelSamples
from calibrant.evaluation.thresholds import beyond_chance

NO_BOUND = "no interval can be computed"
MOST_GAPS = 64.0  # times the gaps found: clipping at zero can take from them


class CheckedSamples:
    """The samples that are checked; what takes long is done when it is first needed."""

    def __init__(self, subject: ModelSamples, procedure: Procedure, confidence: float, strict: bool) -> None:
        self._subject = subject
        self._procedure = procedure
        self._confidence = confidence
        self._strict = strict
        self._reduced = subject.reduced(procedure.metrics)
        self._judged: Measured | None = None
        self.warnings = subject.warnings(self._reduced)

    @property
    def main_events(self) -> tuple[Events, ...]:
        """The events that are judged first."""
        return main_events(self._reduced)

    def limit(self, metric: str, limit: float) -> Check:
        """The check of a value against its limit."""
        asked = Question.of(metric, self._subject.kind)
        if asked.gate.help is None:
            raise InputError(f"there is no limit for {metric}; compare it with a baseline.")
        if not limit >= 0:
            raise InputError(f"the limit of {metric} must be 0 or more; got {limit:g}.")
        if limit > 1 and asked.form.bounds[1] == 1:
            raise InputError(
                f"the limit of {metric} must be between 0 and 1; got {limit:g}; "
                f"use {limit / 100:g} for {limit:g}%."
            )
        key, sign = asked.form.key, asked.form.sign
        value = self._value(key)
        allowed = f"at {'most' if sign > 0 else 'least'} {limit:g}"
        if value is None:
            sentence = f"The {asked.named} is {self._reduced.reasons[key]}; {allowed} is allowed."
            return self._check(asked, "limit", None, limit, outcome="fail", sentence=sentence)
        facts = f"The {asked.named} is {number(value, decimals_apart(value, limit))}"
        if sign * (value - limit) <= ROUNDING:
            sentence = f"{facts}, within the limit of {limit:g}."
            return self._check(
                asked,
                "limit",
                value,
                limit,
                outcome="pass",
                sentence=sentence,
                missed=self._missed(asked, limit),
            )
        threshold, p = None, None
        if self._drawn(asked, limit):
            drawn = self._draw(asked, limit, value)
            threshold, p = drawn.upper, drawn.p_value
            beyond, why = beyond_chance(p, self._confidence), self._explained(limit, drawn)
        else:
            threshold = self._bound(asked, value)
            beyond = threshold is not None and sign * (threshold - limit) > 0
            why = self._bounded("it", sign, threshold)
        side = "above" if sign > 0 else "below"
        return self._check(
            asked,
            "limit",
            value,
            limit,
            threshold=threshold,
            p_value=p,
            outcome="fail" if beyond else "within noise",
            sentence=f"{facts}, {side} the limit of {limit:g}. {self._judgement(beyond)}: {why}.",
            missed=None if beyond else self._missed(asked, limit),
        )

    def against(self, other: ModelSamples, metrics: Sequence[str], *, paired: bool) -> Iterator[Check]:
        """The checks of values against those of the baseline."""
        reduced = other.reduced(self._procedure.metrics)
        judged = measure(reduced, self._procedure, part=0 if paired else 1)
        changes = change(self._judge(), judged, self._procedure.level, paired=paired)
        few = too_few(min(each.effective_samples for each in (self._reduced, reduced)), self._procedure.level)
        default = [ECE.key] if self._subject.kind == "top_label" else [ECE.key, NLL.key]
        for metric in metrics or default:
            asked = Question.of(metric, self._subject.kind)
            key, sign = asked.form.key, asked.form.sign
            if asked.is_error and not asked.drawn and not paired:
                raise InputError(f"{metric} needs a baseline on the same samples.")
            value, base = self._value(key), reduced.values.get(key)
            digits = None if value is None or base is None else decimals_apart(value, base)
            shown = ["infinity" if each is None else number(each, digits) for each in (value, base)]
            facts = f"The {asked.named} is {shown[0]}"
            held = f"the baseline's {shown[1]} ({'same samples' if paired else 'unpaired'})"
            bound = None
            if value is None or base is None:
                worse = value is None and base is not None
                outcome: Outcome = "fail" if worse else "pass"
                sentence = f"{facts}, {'worse' if worse else 'no worse'} than {held}."
            elif sign * (value - base) <= ROUNDING:
                outcome, sentence = "pass", f"{facts}, no worse than {held}."
            else:
                bound = changes[key].low if sign > 0 else changes[key].high
                beyond = bound is not None and sign * bound > 0
                why = self._bounded("the difference", sign, bound)
                if beyond and not paired and self._drawn(asked, base):
                    # Chance gives more error to fewer samples, which no resampling takes away.
                    drawn = self._draw(asked, base, value)
                    beyond, why = beyond_chance(drawn.p_value, self._confidence), self._explained(base, drawn)
                outcome = "fail" if beyond else "within noise"
                sentence = f"{facts}, worse than {held}. {self._judgement(beyond)}: {why}."
            missed = Missed(math.inf, always=True) if few and outcome != "fail" else None
            yield self._check(
                asked,
                "baseline",
                value,
                base,
                threshold=bound,
                outcome=outcome,
                sentence=sentence,
                missed=missed,
            )

    def _check(
        self,
        asked: Question,
        kind: Literal["limit", "baseline"],
        value: float | None,
        against: float | None,
        *,
        outcome: Outcome,
        sentence: str,
        threshold: float | None = None,
        p_value: float | None = None,
        missed: Missed | None = None,
    ) -> Check:
        lenient = outcome == "pass" or (outcome == "within noise" and not self._strict)
        return Check(
            metric=asked.metric,
            key=asked.form.key,
            about=asked.about,
            kind=kind,
            value=value,
            against=against,
            threshold=threshold,
            p_value=p_value,
            outcome=outcome,
            conclusive=missed is None,
            would_pass=None if missed is None or missed.always else missed.value,
            passed=lenient and not (self._strict and missed is not None),
            sentence=sentence
            if missed is None or (self._strict and outcome != "pass")
            else f"{sentence} {self._caveat(asked, missed, against if kind == 'limit' else None)}",
        )

    def _missed(self, asked: Question, limit: float) -> Missed | None:
        """A model that is much worse than the limit allows, and would pass all the same."""
        samples, procedure = self._reduced.effective_samples, self._procedure
        if asked.of_classes and self._reduced.class_table is not None:
            return missed_classwise_error(
                self._reduced.class_table,
                limit,
                num_draws=procedure.num_draws,
                confidence=self._confidence,
                seed=procedure.seed,
            )
        if asked.kernel is not None:
            return missed_error(
                asked.kernel,
                self._reduced.events[asked.prefix],
                limit,
                num_bins=procedure.num_bins,
                num_draws=procedure.num_draws,
                confidence=self._confidence,
                seed=procedure.seed,
            )
        if self._binomial(asked):
            return missed_accuracy(limit, samples, confidence=self._confidence)
        return Missed(math.inf, always=True) if too_few(samples, procedure.level) else None

    def _caveat(self, asked: Question, missed: Missed, limit: float | None) -> str:
        """Why the check is weak evidence, and a model that it would not fail."""
        told = f"{self._subject.samples.num_tested:,} samples are too few"
        draws = self._procedure.num_draws
        if limit is not None and self._drawn(asked, limit):  # a baseline's is not a test by draws
            if (1 + draws) * (1 - self._confidence) < 1 - ROUNDING:
                told = f"{draws} draws are too few"
            elif missed.value <= limit + ROUNDING:
                told = f"With these probabilities no error can exceed {missed.value:.2g}"
        elif asked.form.share and limit == 0:
            told = f"No {asked.gate.name} is less than 0"
        what = "error" if asked.is_error else asked.metric
        worse = f"a model with a true {what} of {missed.value:.2g}"
        passes = "any model would pass" if missed.always else f"{worse} would pass more often than not"
        strict = ", so the strict gate fails: otherwise" if self._strict else ":"
        return f"{told}{strict} {passes}."

    def _drawn(self, asked: Question, limit: float) -> bool:
        """True if draws decide; classes known by their sums are drawn under calibration only."""
        return asked.drawn and not (asked.of_classes and self._reduced.class_table is None and limit > 0)

    def _bound(self, asked: Question, value: float) -> float | None:
        """One-sided bound of a mean; of a share by the binomial distribution."""
        samples = self._reduced.effective_samples
        if self._binomial(asked):
            return highest_share(value, samples, self._confidence)
        if too_few(samples, self._procedure.level):
            return None
        estimate = self._judge().metrics[asked.form.key]
        return estimate.low if asked.form.sign > 0 else estimate.high

    def _binomial(self, asked: Question) -> bool:
        """True for a share of independent samples; with clusters, resamples give the bound."""
        return asked.binomial and self._reduced.clusters is None

    def _value(self, key: str) -> float | None:
        """The value, ``None`` where it is infinite; what cannot be known is an error."""
        value = self._reduced.values.get(key)
        if value is None and not self._reduced.reasons[key].startswith("infinite"):
            raise InputError(f"{key} cannot be checked: {self._reduced.reasons[key]}.")
        return value

    def _draw(self, asked: Question, limit: float, value: float) -> AtLimit:
        if limit <= 0:  # perfect calibration: the draws of the null distribution
            return self._against_chance(asked)
        if asked.of_classes and self._reduced.class_table is not None:
            return draw_classes_at_limit(
                self._reduced.class_table,
                limit,
                value,
                num_draws=self._procedure.num_draws,
                confidence=self._confidence,
                seed=self._procedure.seed,
            )
        return draw_at_limit(
            asked.kernel or "width l1",
            self._reduced.events[asked.prefix],
            limit,
            value,
            num_bins=self._procedure.num_bins,
            num_draws=self._procedure.num_draws,
            confidence=self._confidence,
            seed=self._procedure.seed,
        )

    def _against_chance(self, asked: Question) -> AtLimit:
        errors, null = self._noise.errors(asked.form), self._noise.null(asked.form)
        if errors is None or null is None:
            raise InputError(f"{asked.metric} cannot be checked: its errors under calibration are not drawn.")
        upper = float(np.quantile(errors, self._confidence))
        return AtLimit(mean=null.mean, upper=upper, p_value=null.p_value, num_draws=null.num_draws)

    @cached_property
    def _noise(self) -> Noise:
        return draw_noise(self._reduced, self._procedure)

    def _judge(self) -> Measured:
        if self._judged is None:
            self._judged = measure(self._reduced, self._procedure)
        return self._judged

    def _judgement(self, beyond: bool) -> str:
        if beyond:
            return "This is more than noise"
        if self._strict:
            return "This could be noise, but the gate is strict"
        return "This could be noise, so it passes"

    def _explained(self, limit: float, drawn: AtLimit) -> str:
        sign = "≤" if drawn.p_value <= 1 / (1 + drawn.num_draws) else "="
        return (
            f"a model with a true error of {limit:.4g} stays below {number(drawn.upper)} on "
            f"{self._subject.samples.num_tested:,} samples in {100 * self._confidence:g}% of cases "
            f"(p {sign} {drawn.p_value:.2g})"
        )

    def _bounded(self, what: str, sign: int, bound: float | None) -> str:
        if bound is None:
            return NO_BOUND
        side = "least" if sign > 0 else "most"
        return f"{what} is at {side} {number(bound)} with {100 * self._confidence:g}% confidence"


def draw_classes_at_limit(
    classes: ClassTable, limit: float, found: float, *, num_draws: int, confidence: float, seed: int
) -> AtLimit:
    """As :func:`~calibrant.evaluation.resampling.at_limit.draw_at_limit`, for all classes at once.

    The gaps found in the bins of all classes are shrunk until the class-wise error is the limit, rows sum to
    one again, and labels are drawn from them.
    """
    clustered = classes.clustered(num_draws, stream_seed(seed, Stream.NULL), confidence)
    if clustered is not None:
        drawn = clustered.draws(clustered.gaps_at(clustered.found, limit), num_draws)
        return at_limit_of(drawn, clustered.observed, confidence)
    truth = classes.at(limit, classes.as_observed, most=MOST_GAPS)
    drawn = classes.draw_errors(truth, num_draws, stream_seed(seed, Stream.NULL))
    return at_limit_of(drawn, found, confidence)
