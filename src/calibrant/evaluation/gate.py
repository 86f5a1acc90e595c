"""A gate for pipelines: is a limit, or a baseline, exceeded by more than sampling noise explains?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from calibrant._math.errors import InputError
from calibrant.evaluation.arguments import check_predictions
from calibrant.evaluation.compare import same_samples, test_of
from calibrant.evaluation.evaluate import versions
from calibrant.evaluation.gate_result import (
    CHECK_SCHEMA_VERSION,
    ERRORS,
    NAMES,
    Check,
    GateMetric,
    GateResult,
    Outcome,
)
from calibrant.evaluation.judge import Judged, Procedure, change, judge
from calibrant.evaluation.limits import AtLimit, draw_at_limit
from calibrant.evaluation.phrases import number
from calibrant.evaluation.reduce import reduce_predictions
from calibrant.predictions import Predictions

NO_BOUND = "no interval can be computed"


def check(
    predictions: Predictions,
    limits: Mapping[GateMetric, float] | None = None,
    *,
    baseline: Predictions | None = None,
    baseline_metrics: Sequence[str] | None = None,
    confidence: float = 0.95,
    strict: bool = False,
    num_bins: int = 15,
    bootstrap: int = 1000,
    seed: int = 0,
    command: str | None = None,
) -> GateResult:
    """Hold predictions against limits, a baseline, or both, and fail only what noise does not explain.

    Judged are the test samples, or all where there is no test split; nothing is calibrated. A value on the
    right side of its limit passes. Beyond the limit it fails if a model exactly at the limit would show less
    on a sample of this size with probability ``confidence``: for calibration errors by draws from such a
    model (see :func:`~calibrant.evaluation.limits.draw_at_limit`), since these are biased and an interval
    around them would blame the bias on the model; for means by a one-sided bootstrap bound. What lies between
    passes, and its sentence says so; with ``strict`` it fails.

    Against a baseline the difference counts, by a one-sided bootstrap bound: paired where both were judged on
    the same samples (as in :func:`calibrant.compare`).

    So each check lets a model at the limit, or as good as the baseline, fail with probability about
    1 − ``confidence``; several checks add up.

    Args:
        predictions: What to check; labels (or ``correct``) are needed.
        limits: The most that is allowed of ``"ece"``, ``"adaptive_ece"``, ``"smce"``, ``"nll"``, ``"brier"``,
            and the least of ``"accuracy"``. Of a binary model errors are those of the positive class, of
            several labels means over the labels.
        baseline: Predictions of another model, of the same kind.
        baseline_metrics: What must not be worse than the baseline's; by default ECE and, where it is known,
            NLL.
        confidence: Between 0.5 and 1.
        strict: Whether a value on the wrong side fails even where noise explains it.
        num_bins: Bins of the calibration errors.
        bootstrap: Resamples, and draws from models at a limit.
        seed: Decides everything random.
        command: The command line to record, if there was one.

    Returns:
        Whether all passed, and of each check the value, what it was held against, and a sentence.

    Raises:
        TypeError: If something else than predictions is given.
        InputError: If there is nothing to check, a metric is not known of such predictions, or an option is
            out of range.

    References:
        Vaicenavicius et al., "Evaluating model calibration in classification", AISTATS 2019 (the case of a
        limit of zero).

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> log_odds = rng.normal(size=2000)
        >>> labels = rng.random(2000) < 1 / (1 + np.exp(-log_odds))
        >>> found = check(Predictions(logits=3 * log_odds, labels=labels), {"ece": 0.03})
        >>> found.passed, found.checks[0].outcome
        (False, 'fail')
        >>> check(Predictions(logits=log_odds, labels=labels), {"ece": 0.03}).passed
        True
    """
    check_predictions(predictions, "predictions")
    if not 0.5 < confidence < 1:
        raise InputError(f"`confidence` must lie between 0.5 and 1, as in 0.95; got {confidence}.")
    wanted = dict(limits or {})
    asked = [str(metric) for metric in baseline_metrics or ()]
    held: list[GateMetric] = [metric for metric in NAMES if asked.count(metric)]
    unknown = sorted({*wanted, *(baseline_metrics or ())} - set(NAMES))
    if unknown:
        raise InputError(f"there is no metric {unknown[0]!r} to check; there are {', '.join(NAMES)}.")
    if baseline_metrics and baseline is None:
        raise InputError("`baseline_metrics` go with a `baseline`; there is none.")
    if not wanted and baseline is None:
        raise InputError(
            "there is nothing to check: give a limit (`max_ece=0.03`, or --max-ece 0.03), or a baseline."
        )
    procedure = Procedure(
        kind=predictions.kind,
        num_bins=num_bins,
        num_resamples=bootstrap,
        num_draws=bootstrap,
        level=2 * confidence - 1,  # of which each end is a one-sided bound
        seed=seed,
    )
    gate = _Gate(test_of(predictions), procedure, confidence, strict)
    checks = [gate.limit(metric, limit) for metric, limit in wanted.items()]
    paired = None
    if baseline is not None:
        check_predictions(baseline, "baseline")
        other = test_of(baseline)
        if other.kind != predictions.kind:
            raise InputError(f"`baseline` must be {predictions.kind} as the predictions; got {other.kind}.")
        paired = same_samples(gate.test, other)
        checks += gate.against(other, held, paired=paired)
    return GateResult(
        schema_version=CHECK_SCHEMA_VERSION,
        passed=all(each.passed for each in checks),
        strict=strict,
        confidence=confidence,
        checks=tuple(checks),
        kind=predictions.kind,
        num_samples=gate.test.num_samples,
        paired=paired,
        num_bins=num_bins,
        bootstrap=bootstrap,
        seed=seed,
        source=predictions.source,
        baseline=None if baseline is None else baseline.source,
        notes=predictions.notes,
        versions=versions(),
        command=command,
    )


class _Gate:
    """The samples that are checked; what takes long is done when it is first needed."""

    def __init__(self, test: Predictions, procedure: Procedure, confidence: float, strict: bool) -> None:
        self.test = test
        self._procedure = procedure
        self._confidence = confidence
        self._strict = strict
        self._reduced = reduce_predictions(test, procedure.num_bins)
        self._judged: Judged | None = None

    def limit(self, metric: GateMetric, limit: float) -> Check:
        """Whether the value lies beyond its limit."""
        if not limit >= 0:
            raise InputError(f"the limit of {metric} must not be negative or NaN; got {limit}.")
        if limit > 1 and metric in {*ERRORS, "accuracy"}:
            raise InputError(
                f"the limit of {metric} must be a fraction in 0..1; got {limit:g}: "
                f"{limit:g} % is {limit / 100:g}."
            )
        key, sign = self._key(metric), _sign(metric)
        value = self._value(key)
        allowed = f"at {'most' if sign > 0 else 'least'} {limit:g}"
        if value is None:
            sentence = f"The {self._named(metric)} is {self._reduced.reasons[key]}; {allowed} is allowed."
            return self._check(metric, "limit", None, limit, outcome="fail", sentence=sentence)
        facts = f"The {self._named(metric)} of {number(value)}"
        if sign * (value - limit) <= 0:
            sentence = f"{facts} keeps the limit of {allowed}."
            return self._check(metric, "limit", value, limit, outcome="pass", sentence=sentence)
        threshold, p = None, None
        if metric in ERRORS:
            drawn = self._draw(metric, limit, value)
            threshold, p = drawn.upper, drawn.p_value
            beyond, why = p <= 1 - self._confidence, self._explained(limit, drawn)
        else:
            estimate = self._judge().metrics[key]
            threshold = estimate.low if sign > 0 else estimate.high
            beyond = threshold is not None and sign * (threshold - limit) > 0
            why = self._bounded("it", sign, threshold)
        verb = "exceeds" if sign > 0 else "falls short of"
        return self._check(
            metric,
            "limit",
            value,
            limit,
            threshold=threshold,
            p_value=p,
            outcome="fail" if beyond else "within noise",
            sentence=f"{facts} {verb} the limit of {limit:g}, {self._judgement(beyond)}: {why}.",
        )

    def against(self, other: Predictions, metrics: Sequence[GateMetric], *, paired: bool) -> Iterator[Check]:
        """Whether values are worse than those of the baseline."""
        reduced = reduce_predictions(other, self._procedure.num_bins)
        judged = judge(reduced, self._procedure, part=0 if paired else 1)
        changes = change(self._judge(), judged, self._procedure.level, paired=paired)
        default: list[GateMetric] = ["ece"] if self.test.kind == "top_label" else ["ece", "nll"]
        for metric in metrics or default:
            key, sign = self._key(metric), _sign(metric)
            value, base = self._value(key), reduced.values.get(key)
            shown = ["infinity" if each is None else number(each) for each in (value, base)]
            facts = f"The {self._named(metric)} of {shown[0]}"
            held = f"the baseline's {shown[1]} ({'on the same samples' if paired else 'unpaired'})"
            bound = None
            if value is None or base is None:
                worse = value is None and base is not None
                outcome: Outcome = "fail" if worse else "pass"
                sentence = f"{facts} is {'worse' if worse else 'no worse'} than {held}."
            elif sign * (value - base) <= 0:
                outcome, sentence = "pass", f"{facts} is no worse than {held}."
            else:
                bound = changes[key].low if sign > 0 else changes[key].high
                beyond = bound is not None and sign * bound > 0
                outcome = "fail" if beyond else "within noise"
                why = self._bounded("the difference", sign, bound)
                sentence = f"{facts} is worse than {held}, {self._judgement(beyond)}: {why}."
            yield self._check(
                metric, "baseline", value, base, threshold=bound, outcome=outcome, sentence=sentence
            )

    def _check(
        self,
        metric: GateMetric,
        kind: Literal["limit", "baseline"],
        value: float | None,
        against: float | None,
        *,
        outcome: Outcome,
        sentence: str,
        threshold: float | None = None,
        p_value: float | None = None,
    ) -> Check:
        return Check(
            metric=metric,
            about=self._about(metric),
            kind=kind,
            value=value,
            against=against,
            threshold=threshold,
            p_value=p_value,
            outcome=outcome,
            passed=outcome == "pass" or (outcome == "within noise" and not self._strict),
            sentence=sentence,
        )

    def _key(self, metric: GateMetric) -> str:
        """Its name among the values of an evaluation."""
        return f"event_{metric}" if metric in ERRORS and self.test.kind == "binary" else metric

    def _about(self, metric: GateMetric) -> str:
        if metric in ERRORS:
            return {"binary": "positive class", "multilabel": "labels"}.get(self.test.kind, "top label")
        return "decisions" if metric == "accuracy" else "all classes"

    def _named(self, metric: GateMetric) -> str:
        """``calibration error (ECE) of the positive class``."""
        about = self._about(metric)
        return f"{NAMES[metric]} of the {about}" if about in {"positive class", "labels"} else NAMES[metric]

    def _value(self, key: str) -> float | None:
        """The value, ``None`` where it is infinite; what cannot be known is an error."""
        value = self._reduced.values.get(key)
        if value is None and not self._reduced.reasons[key].startswith("infinite"):
            raise InputError(f"{key} cannot be checked: {self._reduced.reasons[key]}.")
        return value

    def _draw(self, metric: GateMetric, limit: float, value: float) -> AtLimit:
        return draw_at_limit(
            ERRORS[metric],
            self._reduced.events["event_" if self.test.kind == "binary" else ""],
            limit,
            value,
            num_bins=self._procedure.num_bins,
            num_draws=self._procedure.num_draws,
            confidence=self._confidence,
            seed=self._procedure.seed,
        )

    def _judge(self) -> Judged:
        if self._judged is None:
            self._judged = judge(self._reduced, self._procedure)
        return self._judged

    def _judgement(self, beyond: bool) -> str:
        if beyond:
            return "beyond sampling noise"
        if self._strict:
            return "within sampling noise, but the gate is strict"
        return "but within sampling noise, so it passes"

    def _explained(self, limit: float, drawn: AtLimit) -> str:
        sign = "≤" if drawn.p_value <= 1 / (1 + drawn.num_draws) else "="
        return (
            f"a model whose true error is {limit:g} shows at most {number(drawn.upper)} on "
            f"{self.test.num_samples:,} samples in {100 * self._confidence:g} % of cases "
            f"(p {sign} {drawn.p_value:.2g})"
        )

    def _bounded(self, what: str, sign: int, bound: float | None) -> str:
        if bound is None:
            return NO_BOUND
        side = "least" if sign > 0 else "most"
        return f"{what} is at {side} {number(bound)} with {100 * self._confidence:g} % confidence"


def _sign(metric: GateMetric) -> int:
    """1 where less is better, −1 where more is."""
    return -1 if metric == "accuracy" else 1
