"""A gate for pipelines: fail if a limit or a baseline is exceeded by more than sampling noise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from calibrant._math.errors import InputError
from calibrant._math.text_form import meant, suggesting
from calibrant.evaluation.arguments import Cluster, Procedure, refuse_other_classes, versions
from calibrant.evaluation.gate.limits_and_baseline import CheckedSamples, GatedQuantity
from calibrant.evaluation.gate.result import CHECK_SCHEMA_VERSION, Check, GateResult
from calibrant.evaluation.judging.groups import pooled_names
from calibrant.evaluation.judging.reduce import Judgeable
from calibrant.evaluation.phrases import percent
from calibrant.evaluation.quantities import check_metrics, with_gate
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.source import DEALT_OTHERWISE, ModelSamples, samples_of
from calibrant.evaluation.spread import Spread, here
from calibrant.predictions import Predictions


@suggesting()
def check(
    predictions: Judgeable,
    limits: Mapping[str, float] | None = None,
    *,
    baseline: Judgeable | None = None,
    baseline_metrics: Sequence[str] | None = None,
    confidence: float = 0.95,
    strict: bool = False,
    positive_class: int | str | None = None,
    groups: Sequence[str] | Literal["none"] | None = None,
    cluster: Cluster = None,
    num_bins: int = 15,
    bootstrap: int = 1000,
    seed: int = 0,
    command: str | None = None,
    spread: Spread = here,
) -> GateResult:
    """Check predictions against limits, a baseline, or both; only what exceeds sampling noise fails.

    The test samples are checked, or all samples if there is no test split; nothing is calibrated. A value
    within its limit passes. A value beyond it fails if a model exactly at the limit would show less on a
    sample of this size with probability ``confidence``. For calibration errors, this is tested by draws from
    such a model (see :func:`~calibrant.evaluation.judging.at_limit.at_limit`): they are biased, and
    an interval around them would blame the bias on the model. Accuracy uses the binomial distribution, other
    means a one-sided bootstrap bound. A value that noise could explain passes; with ``strict`` it fails.

    With a handful of samples, a far worse model would pass as well. So the check also computes whether a
    model with these probabilities and an error of twice the limit would fail in half of the cases. (It is at
    least 5 points more, and at most halfway to the greatest possible error.) If not, ``conclusive`` is false
    and ``would_pass`` is the largest error that would pass: the lowest accuracy, or ``None`` if nothing would
    fail. Such a check passes; with ``strict`` it fails. Means and baselines are inconclusive if no sample of
    this size could fail (below five samples at 95%).

    Against a baseline, the difference is tested by a one-sided bootstrap bound, paired if both models have
    the same samples (as in :func:`calibrant.compare`).

    Each check lets a model at the limit, or as good as the baseline, fail with probability about
    1 − ``confidence``; several checks add up.

    Args:
        predictions: The predictions to check; labels (or ``correct``) are needed. Images and tables that are
            read part by part are checked by their sums, as in :func:`calibrant.evaluate`.
        limits: The largest value allowed of each metric, as in ``{"ece": 0.03}``, or the smallest of
            ``"accuracy"``. The options of ``calibrant check --help`` list the metrics. For a binary model
            errors are those of the positive class, for several labels means over the labels.
        baseline: Predictions of another model, of the same kind and number of classes.
        baseline_metrics: Metrics that must not be worse than the baseline's: any of these, and on the same
            samples also those that ``metrics`` adds to :func:`calibrant.evaluate`. By default ECE and, if
            known, NLL.
        confidence: Between 0.5 and 1.
        strict: Fail values beyond their limit even if noise could explain them, and checks with too few
            samples to fail.
        positive_class: With two classes the positive one, as in :func:`calibrant.evaluate`.
        groups: Names of groups in which limits of calibration errors are checked as well. By default all
            groups of the predictions, with those below 30 samples together; ``"none"`` checks no group. A
            group has the noise of its size, and Bonferroni's correction for the number of groups. In a table
            that is read part by part, random rows are checked.
        cluster: The clusters of the samples, as in :func:`calibrant.evaluate`; the baseline has its own.
        num_bins: Bins of the calibration errors.
        bootstrap: Resamples, and draws from models at a limit.
        seed: Random seed; the same seed gives the same result.
        command: The command line to record, if there was one.
        spread: Spreads the parts of a table that is read part by part.

    Returns:
        The overall result, and each check with its value, its limit or baseline, and a sentence.

    Raises:
        TypeError: If something else than predictions is given.
        InputError: If there is nothing to check, a metric is not known of such predictions, or an option is
            out of range.

    References:
        Vaicenavicius et al., "Evaluating model calibration in classification", AISTATS 2019 (the case of a
        limit of zero).

    Example:
        >>> import numpy as np
        >>> from calibrant import Predictions
        >>> rng = np.random.default_rng(0)
        >>> log_odds = rng.normal(size=2000)
        >>> labels = rng.random(2000) < 1 / (1 + np.exp(-log_odds))
        >>> found = check(Predictions(logits=3 * log_odds, labels=labels), {"ece": 0.03})
        >>> found.passed, found.checks[0].outcome
        (False, 'fail')
        >>> check(Predictions(logits=log_odds, labels=labels), {"ece": 0.03}).passed
        True
    """
    if not 0.5 < confidence < 1:
        raise InputError(f"`confidence` must be between 0.5 and 1, as in 0.95; got {confidence}.")
    wanted, known = dict(limits or {}), with_gate()
    held = [metric for metric in known if metric in (baseline_metrics or ())]
    unknown = sorted({*wanted, *(baseline_metrics or ())} - set(known))
    if unknown:
        near = meant(unknown[0], known) or f"; there are {', '.join(known)}."
        raise InputError(f"there is no metric {unknown[0]!r} to check{near}")
    if baseline_metrics and baseline is None:
        raise InputError("give a `baseline` with `baseline_metrics`.")
    if not wanted and baseline is None:
        raise InputError(
            'there is nothing to check; give a limit (`{"ece": 0.03}`, or --max-ece 0.03) or a baseline.'
        )
    subject = samples_of(
        predictions, num_bins, positive_class=positive_class, cluster=cluster, seed=seed, spread=spread
    )
    procedure = Procedure(
        kind=subject.kind,
        num_bins=num_bins,
        num_resamples=bootstrap,
        num_draws=bootstrap,
        level=2 * confidence - 1,  # of which each end is a one-sided bound
        seed=seed,
        metrics=check_metrics([*wanted, *held]),
    )
    checked = CheckedSamples(subject, procedure, confidence, strict)
    checks = [checked.limit(metric, limit) for metric, limit in wanted.items()]
    said: tuple[str, ...] = ()
    if groups != "none":
        of_groups, said = _check_groups(
            subject,
            wanted,
            (groups,) if isinstance(groups, str) else groups,
            procedure=procedure,
            confidence=confidence,
            strict=strict,
        )
        checks += of_groups
    paired = None
    if baseline is not None:
        other = samples_of(baseline, num_bins, name="baseline", positive_class=positive_class, spread=spread)
        if other.kind != subject.kind:
            raise InputError(f"`baseline` must be {subject.kind}, like the predictions; got {other.kind}.")
        refuse_other_classes([("the predictions", subject.class_names), ("the baseline", other.class_names)])
        if other.num_classes != subject.num_classes:
            raise InputError(
                f"`baseline` must have the same number of classes; got {other.num_classes} and "
                f"{subject.num_classes}; `calibrant compare` shows such models side by side."
            )
        paired = subject.same_as(other)
        if subject.same_rows_other_batches(other):
            subject = replace(subject, notes=(*subject.notes, DEALT_OTHERWISE))
        checks += checked.against(other, held, paired=paired)
    return GateResult(
        schema_version=CHECK_SCHEMA_VERSION,
        passed=all(each.passed for each in checks),
        strict=strict,
        confidence=confidence,
        checks=tuple(checks),
        kind=subject.kind,
        num_samples=subject.samples.num_tested,
        paired=paired,
        num_bins=num_bins,
        bootstrap=bootstrap,
        seed=seed,
        source=subject.source,
        baseline=None if baseline is None else baseline.source,
        notes=(*subject.notes, *subject.clusters_note, *said),
        versions=versions(),
        command=command,
        warnings=checked.warnings,
    )


def _check_groups(
    subject: ModelSamples,
    limits: Mapping[str, float],
    groups: Sequence[str] | None,
    *,
    procedure: Procedure,
    confidence: float,
    strict: bool,
) -> tuple[list[Check], tuple[str, ...]]:
    """Checks of calibration errors in each group, and notes on groups that are left out.

    A single group is not checked, and only random rows of a table that does not fit in memory. Bonferroni's
    correction bounds the probability that a model at the limit fails in any group.
    """
    grouped = subject.origin.has_groups
    if groups is not None and not grouped:
        raise InputError("`groups` were named, but the predictions have none; name their column.")
    wanted = {
        metric: limit for metric, limit in limits.items() if GatedQuantity.of(metric, subject.kind).is_error
    }
    if groups is not None and not wanted:
        raise InputError(
            "`groups` need a limit of a calibration error; "
            'give one (`{"ece": 0.03}`, or --max-ece 0.03), or leave `groups` out.'
        )
    if not grouped or not wanted:
        return [], ()
    test, notes = subject.origin.with_groups()
    if test.weights is not None:
        test = test.rows(np.flatnonzero(test.weights.numpy() > 0))
    names = _pooled(test, groups)
    sizes = Counter(name for name in names.tolist() if name is not None)
    if len(sizes) < 2 and groups is None:
        return [], notes
    alone = [name for name in sizes if sizes[name] == 1]  # small groups are pooled: at most one
    own = 1 - (1 - confidence) / len(sizes)
    num_draws = max(procedure.num_draws, math.ceil(2 / (1 - own)))
    adjusted = replace(procedure, level=2 * own - 1, num_draws=num_draws)
    checks: list[Check] = []
    for name in sorted(set(sizes) - set(alone)):
        part = subject.of(test.rows(np.flatnonzero(names == name)), procedure.num_bins)
        checked = CheckedSamples(part, adjusted, own, strict)
        for metric, limit in wanted.items():
            check = checked.limit(metric, limit)
            facts = "" if check.passed else _rates(checked.main_events)
            said = f"Group {name or '(empty)'}: {check.sentence}{facts}"
            checks.append(replace(check, group=name, sentence=said))
    left_out = [f"Group {name or '(empty)'} was not checked: it holds one sample." for name in alone]
    return checks, (*notes, *left_out)


def summed_up(checks: Sequence[Check], most: int) -> tuple[list[Check], str | None]:
    """Leave out passing checks of groups if there are more than ``most``; a sentence counts them."""
    of_groups = [each for each in checks if each.group is not None]
    if len(of_groups) <= most:
        return list(checks), None
    passed = sum(each.passed for each in of_groups)
    kept = [each for each in checks if each.group is None or not each.passed]
    return kept, f"{passed} checks of groups pass" if passed else None


def _pooled(test: Predictions, wanted: Sequence[str] | None) -> np.ndarray:
    """Group name to check each sample under; ``None`` for samples of other groups."""
    groups = np.asarray(test.groups, dtype=object)
    if wanted is not None:
        sizes = Counter(groups.tolist())
        for name in wanted or ("",):
            if name not in sizes:
                known = ", ".join(sorted(sizes)[:5])
                raise InputError(f"`groups` must name groups of the file; got {name!r}; there are {known}.")
            if sizes[name] == 1:
                raise InputError(f"`groups` must name groups of two samples or more; {name!r} holds one.")
        return np.array([name if name in wanted else None for name in groups.tolist()], dtype=object)
    return pooled_names(groups, test.clusters)


def _rates(events: tuple[Events, ...]) -> str:
    if len(events) != 1:
        return ""
    (event,) = events
    predicted, actual = (
        float(np.average(values, weights=event.weights)) for values in (event.confidences, event.outcomes)
    )
    return f" {percent(predicted)} predicted, {percent(actual)} actual."
