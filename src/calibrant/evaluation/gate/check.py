"""A gate for pipelines: is a limit, or a baseline, exceeded by more than sampling noise explains?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from calibrant._math.errors import InputError
from calibrant.evaluation.arguments import Cluster, in_clusters
from calibrant.evaluation.gate.by_group import check_groups
from calibrant.evaluation.gate.limits_and_baseline import CheckedSamples
from calibrant.evaluation.gate.result import CHECK_SCHEMA_VERSION, GateResult
from calibrant.evaluation.pairing import refuse_other_classes
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.quantities.roster import check_metrics, gated
from calibrant.evaluation.spread import Spread, here
from calibrant.evaluation.subject import DEALT_OTHERWISE, Judgeable, Subject
from calibrant.evaluation.versions import versions
from calibrant.predictions import Predictions


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
    """Hold predictions against limits, a baseline, or both, and fail only what noise does not explain.

    Judged are the test samples, or all where there is no test split; nothing is calibrated. A value on the
    right side of its limit passes. Beyond the limit it fails if a model exactly at the limit would show less
    on a sample of this size with probability ``confidence``: for calibration errors by draws from such a
    model (see :func:`~calibrant.evaluation.resampling.at_limit.draw_at_limit`), since these are biased and
    an interval around them would blame the bias on the model; for accuracy by the binomial distribution; for
    other means by a one-sided bootstrap bound. What lies between passes, and its sentence says so; with
    ``strict`` it fails.

    A pass of a handful of samples says nothing, since a far worse model would pass as well. So it is also
    looked whether a model with an error of twice the limit (and at least 5 points more, but no further than
    halfway to the greatest error there can be), with the probabilities stated here, would fail in half of the
    cases or more. Where not, ``conclusive`` is false, ``would_pass`` names the largest error that would pass
    (the lowest accuracy; ``None`` where nothing would fail), and the sentence says so. Such a check passes;
    with ``strict`` it fails. The same is said of means and baselines where no sample of this size could fail
    (below five samples at 95 %).

    Against a baseline the difference counts, by a one-sided bootstrap bound: paired where both were judged on
    the same samples (as in :func:`calibrant.compare`).

    So each check lets a model at the limit, or as good as the baseline, fail with probability about
    1 − ``confidence``; several checks add up.

    Args:
        predictions: What to check; labels (or ``correct``) are needed. Images and tables that are read part
            by part are judged by their sums, as in :func:`calibrant.evaluate`.
        limits: The largest value allowed of each metric, as in ``{"ece": 0.03}``, or the smallest of
            ``"accuracy"``. The options of ``calibrant check --help`` list the metrics. For a binary model
            errors are those of the positive class, for several labels means over the labels.
        baseline: Predictions of another model, of the same kind and number of classes.
        baseline_metrics: What must not be worse than the baseline's: any of these, and on the same samples
            also what ``metrics`` adds to :func:`calibrant.evaluate`. By default ECE and, where it is known,
            NLL.
        confidence: Between 0.5 and 1.
        strict: Whether a value on the wrong side fails even where noise explains it, and a check that so few
            samples cannot fail.
        positive_class: With two classes the one that is judged, as in :func:`calibrant.evaluate`.
        groups: The groups in which limits of calibration errors are held as well, by name; by default all
            groups of the predictions, those below 30 samples together; ``"none"`` holds no group. A group is
            held with the noise of its size, and Bonferroni's correction for the number of groups; of a table
            that is read part by part, on random rows.
        cluster: Which samples hang together, as in :func:`calibrant.evaluate`; the baseline's stand in it.
        num_bins: Bins of the calibration errors.
        bootstrap: Resamples, and draws from models at a limit.
        seed: Random seed; the same seed gives the same result.
        command: The command line to record, if there was one.
        spread: What shares out the parts of a table that is read part by part.

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
    if isinstance(predictions, Predictions):
        predictions = in_clusters(predictions, cluster)
    elif cluster is not None:
        raise InputError("`cluster` must not be given for images, or for tables that are read part by part.")
    if not 0.5 < confidence < 1:
        raise InputError(f"`confidence` must lie between 0.5 and 1, as in 0.95; got {confidence}.")
    wanted, known = dict(limits or {}), gated()
    held = [metric for metric in known if metric in (baseline_metrics or ())]
    unknown = sorted({*wanted, *(baseline_metrics or ())} - set(known))
    if unknown:
        raise InputError(f"there is no metric {unknown[0]!r} to check; there are {', '.join(known)}.")
    if baseline_metrics and baseline is None:
        raise InputError("`baseline_metrics` go with a `baseline`; there is none.")
    if not wanted and baseline is None:
        raise InputError(
            'there is nothing to check: give a limit (`{"ece": 0.03}`, or --max-ece 0.03), or a baseline.'
        )
    subject = Subject.of(
        predictions, num_bins, name="predictions", positive_class=positive_class, spread=spread
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
        of_groups, said = check_groups(
            predictions,
            subject,
            wanted,
            (groups,) if isinstance(groups, str) else groups,
            procedure=procedure,
            confidence=confidence,
            strict=strict,
            positive_class=positive_class,
            spread=spread,
        )
        checks += of_groups
    paired = None
    if baseline is not None:
        other = Subject.of(baseline, num_bins, name="baseline", positive_class=positive_class, spread=spread)
        if other.kind != subject.kind:
            raise InputError(f"`baseline` must be {subject.kind} as the predictions; got {other.kind}.")
        refuse_other_classes([("the predictions", subject), ("the baseline", other)])
        if other.num_classes != subject.num_classes:
            raise InputError(
                f"`baseline` must have as many classes as the predictions; got {other.num_classes} and "
                f"{subject.num_classes}; `calibrant compare` shows such models side by side."
            )
        paired = subject.same_as(other)
        if subject.dealt_otherwise(other):
            subject = replace(subject, notes=(*subject.notes, DEALT_OTHERWISE))
        checks += checked.against(other, held, paired=paired)
    return GateResult(
        schema_version=CHECK_SCHEMA_VERSION,
        passed=all(each.passed for each in checks),
        strict=strict,
        confidence=confidence,
        checks=tuple(checks),
        kind=subject.kind,
        num_samples=subject.num_samples,
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
