"""Decisions on values against limits and against a baseline, one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from calibrant._math.errors import InputError
from calibrant.evaluation.gate.power import UndetectedError, missed_accuracy, undetected
from calibrant.evaluation.gate.question import GatedQuantity
from calibrant.evaluation.gate.result import Check
from calibrant.evaluation.gate.sentences import Decision, Sentences
from calibrant.evaluation.judging.measure import Measured, change, main_events, measure
from calibrant.evaluation.judging.noise import Noise, draw_noise
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.quantities import ECE, NLL
from calibrant.evaluation.resampling.at_limit import AtLimit, ErrorModels, at_limit, error_models
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.resampling.intervals import highest_share, too_few
from calibrant.evaluation.resampling.null import ROUNDING
from calibrant.evaluation.result import Estimate
from calibrant.evaluation.source import ModelSamples
from calibrant.evaluation.thresholds import beyond_chance


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
        return main_events(self._reduced)

    def limit(self, metric: str, limit: float) -> Check:
        asked = GatedQuantity.with_limit(metric, self._subject.kind, limit)
        return self._worded(self._against_limit(asked, limit))

    def against(self, other: ModelSamples, metrics: Sequence[str], *, paired: bool) -> Iterator[Check]:
        reduced = other.reduced(self._procedure.metrics)
        judged = measure(reduced, self._procedure, part=0 if paired else 1)
        changes = change(self._judge(), judged, self._procedure.level, paired=paired)
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
        words = Sentences(
            num_samples=self._subject.samples.num_tested,
            num_draws=self._procedure.num_draws,
            confidence=self._confidence,
            strict=self._strict,
            reasons=self._reduced.reasons,
        )
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
            sentence=words.sentence(found),
        )

    def _missed(self, asked: GatedQuantity, limit: float) -> UndetectedError | None:
        """A model much worse than the limit that would still pass."""
        samples, procedure = self._reduced.effective_samples, self._procedure
        models = self._models(asked)
        if models is not None:
            return undetected(models, limit, num_draws=procedure.num_draws, confidence=self._confidence)
        if self._binomial(asked):
            return missed_accuracy(limit, samples, confidence=self._confidence)
        return UndetectedError(math.inf, always=True) if too_few(samples, procedure.level) else None

    def _drawn(self, asked: GatedQuantity, limit: float) -> bool:
        """True if draws decide; classes known by their sums are drawn under calibration only."""
        return asked.drawn and not (asked.of_classes and self._reduced.class_table is None and limit > 0)

    def _bound(self, asked: GatedQuantity, value: float) -> float | None:
        """One-sided bound of a mean; of a share by the binomial distribution."""
        samples = self._reduced.effective_samples
        if self._binomial(asked):
            return highest_share(value, samples, self._confidence)
        if too_few(samples, self._procedure.level):
            return None
        estimate = self._judge().metrics[asked.form.key]
        return estimate.low if asked.form.sign > 0 else estimate.high

    def _binomial(self, asked: GatedQuantity) -> bool:
        """True for a share of independent samples; with clusters, resamples give the bound."""
        return asked.binomial and self._reduced.clusters is None

    def _value(self, key: str) -> float | None:
        """The value, ``None`` where it is infinite; what cannot be known is an error."""
        value = self._reduced.values.get(key)
        if value is None and not self._reduced.reasons[key].startswith("infinite"):
            raise InputError(f"{key} cannot be checked: {self._reduced.reasons[key]}.")
        return value

    def _draw(self, asked: GatedQuantity, limit: float) -> AtLimit:
        if limit <= 0:  # perfect calibration: the draws of the null distribution
            return self._against_chance(asked)
        models = self._models(asked)
        if models is None:
            raise InputError(f"{asked.metric} cannot be checked: it is not drawn for a model at a limit.")
        return at_limit(models, limit, num_draws=self._procedure.num_draws, confidence=self._confidence)

    def _models(self, asked: GatedQuantity) -> ErrorModels | None:
        """The models whose errors are drawn; ``None`` for means, and classes that are known by their sums."""
        procedure, found = self._procedure, self._reduced.values.get(asked.form.key, 0.0)
        if asked.of_classes and self._reduced.class_table is not None:
            return self._reduced.class_table.error_models(
                found, num_draws=procedure.num_draws, confidence=self._confidence, seed=procedure.seed
            )
        if asked.kernel is None:
            return None
        return error_models(
            asked.kernel,
            self._reduced.events[asked.prefix],
            found,
            num_bins=procedure.num_bins,
            num_draws=procedure.num_draws,
            seed=procedure.seed,
        )

    def _against_chance(self, asked: GatedQuantity) -> AtLimit:
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
