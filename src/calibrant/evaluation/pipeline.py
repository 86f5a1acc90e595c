"""Evaluation of one set of predictions: notes on the samples, fits, every arm, verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_is_number
from calibrant._math.errors import InputError
from calibrant._math.machine import give_back
from calibrant._math.text_form import suggesting
from calibrant.calibrators import Calibrator, FitResult
from calibrant.evaluation import arguments
from calibrant.evaluation.arguments import (
    WIDE,
    Cluster,
    Procedure,
    Progress,
    Steps,
    as_judged,
    clusters_note,
    coverage_of,
    dropped_note,
    few_resamples_note,
    is_wide,
    names_of,
    test_of,
    versions,
)
from calibrant.evaluation.fitting.split import Split, has_both_parts, judged_kind
from calibrant.evaluation.fitting.templates import (
    UNCALIBRATED,
    FittedCalibrator,
    fit,
    fit_summary,
    missing_classes,
    one_class_only,
    templates,
    wants_calibrators,
)
from calibrant.evaluation.judging.diagrams import shapes_of_arm
from calibrant.evaluation.judging.groups import with_groups
from calibrant.evaluation.judging.measure import Measured, against_chance, change, measure
from calibrant.evaluation.judging.reduce import (
    ArmSamples,
    Judgeable,
    Source,
    reduce_predictions,
    with_ranks_of,
)
from calibrant.evaluation.out_of_distribution import NEED_LOGITS, detect
from calibrant.evaluation.parts.source import sampled_to_fit
from calibrant.evaluation.quantities import BRIER, NLL, check_metrics
from calibrant.evaluation.resampling.intervals import significance
from calibrant.evaluation.result import (
    SCHEMA_VERSION,
    Arm,
    ClassRow,
    Estimate,
    Evaluation,
    Intervals,
    Kind,
)
from calibrant.evaluation.source import alarms, other_notes, source_of
from calibrant.evaluation.spread import Spread, here
from calibrant.evaluation.verdict.verdict import verdict_of
from calibrant.metrics.out_of_distribution import OutOfDistributionScore
from calibrant.predictions import Predictions
from calibrant.predictions.checks import refuse_too_few
from calibrant.predictions.partitioned import PartitionedPredictions


@suggesting(
    unnamed="one set of predictions; got {}; samples to fit on go as `calibration=`, and `calibrant.compare` "
    "compares several models; for a classifier use `calibrant.Predictions.from_estimator(classifier, X, y)`; "
    f"{arguments.NAME_ARRAYS}"
)
def evaluate(
    predictions: Judgeable | None = None,
    *,
    probs: ArrayLike | None = None,
    logits: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    correct: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    split: ArrayLike | None = None,
    class_names: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    calibration: Predictions | PartitionedPredictions | None = None,
    calibrators: Sequence[str | Calibrator] | None = None,
    positive_class: int | str | None = None,
    cluster: Cluster = None,
    num_bins: int = 15,
    bootstrap: int = 1000,
    null_draws: int = 1000,
    level: float = 0.95,
    intervals: Intervals = "inverted",
    tolerance: float | None = None,
    metrics: Sequence[str] = (),
    ood: Predictions | None = None,
    ood_score: OutOfDistributionScore | None = None,
    seed: int = 0,
    command: str | None = None,
    progress: Progress | None = None,
    spread: Spread = here,
) -> Evaluation:
    r"""Test whether predictions are calibrated, and recommend a fix.

    Every metric is computed before calibration and after each calibrator. Calibrators are fitted on some
    samples and evaluated on others:

    - those of the split that the predictions have, or of ``calibration``;
    - without a split, all samples: repairs by 5-fold cross-fitting, each sample with calibrators fitted on
      the other four fifths. The same folds choose the recommended repair, which inflates its gain in log loss
      by 0.004 at most (three binary simulations and one of ten classes, 300 to 3000 samples);
    - without a split and with more than a million scores (samples times classes), halves drawn at random
      within each class.

    The choice is in ``settings.calibration``, and in ``notes`` if it was ours.

    **Intervals** come from ``bootstrap`` resamples of the test samples, which keep their weights. All arms
    share the resamples, so ``change`` (arm minus uncalibrated) is paired. Resampling inflates calibration
    errors: a 95% bootstrap interval of a calibrated model's ECE almost never contains its true value, 0. The
    interval of an error is therefore an inverted test: all true errors that the samples do not reject (see
    :mod:`calibrant.evaluation.resampling.inversion`). It excludes zero exactly if the p-value of ``null`` is
    at most one minus the level. It need not be symmetric about the value, nor contain it. ``without_chance``
    is the matching bias-corrected estimate. The interval of a ``change`` of two errors is an approximation
    from their intervals and the correlation of the resampled errors. ``intervals`` takes bootstrap intervals
    for calibration errors instead: centred on the value, plain percentiles, or BCa ones. The AUROC has
    DeLong's interval, or for several classes the same with the influences averaged; calibration slope and
    intercept have normal ones from their influences. If all samples that count are right (or none is),
    resamples are equal, and the share has Clopper and Pearson's interval. There is none if a single sample
    decides, nor for a change on fewer than six samples (at 95%), which noise could explain even if all change
    the same way.

    **Noise**: a finite sample shows an error even if every probability is true. ``null`` holds the errors
    when outcomes are drawn from the stated probabilities, the share :math:`(1 + k)/(1 + D)` of :math:`D`
    draws (:math:`k` of which reach the error observed) as the p-value, and the ``level`` quantile.

    **The verdict** rests on a test that finds errors anywhere on the scale (see
    :mod:`calibrant.evaluation.resampling.calibration_test`). With two classes it tests the probability of the
    positive class, with several labels that of each label, else the confidence of the top label. With more
    classes, every class is tested as well: the class-wise error, and the mean probability of each class
    against its rate, from joint draws of the labels. If there are groups, each is tested like the whole.
    Holm's adjustment keeps the share of calibrated models that fail any of these at or below ``1 - level``.
    If only classes or groups fail, the direction is ``"calibrated in part"``. Calibration errors measure the
    size of what the test finds.

    **The recommendation** is the simplest calibrator whose negative log-likelihood, cross-validated on the
    calibration samples, is within one standard error of the best (see :func:`calibrant.calibrators.select`):
    never the one with the lowest calibration error. By default all suitable calibrators are candidates, and
    the chosen one is evaluated next to the default ones. None is recommended if its NLL is clearly worse on
    the test samples, or if there are fewer than 20 calibration samples.

    Args:
        predictions: The predictions to evaluate, with labels. Without it, give arrays by the names that
            :class:`Predictions` has for them. Segmentation (:class:`DensePredictions`) is read one image at a
            time, and images are the clusters; calibrators are fitted on some positions of each image of the
            calibration split. Tables of any size (:class:`PartitionedPredictions`) are read part by part and
            evaluated by sums over batches of samples.
        probs: Probabilities ``(N, C)``, or of class 1 ``(N,)``.
        logits: Instead, scores before the softmax ``(N, C)``, or log-odds of class 1 ``(N,)``.
        confidence: Instead, the probability of the predicted class ``(N,)``.
        correct: 1 or True if that class was right ``(N,)``.
        labels: True classes ``(N,)``, by number or by a name in ``class_names``; or 0 and 1 ``(N, C)`` for
            several labels per sample.
        split: 0 for samples to fit on, 1 for test samples ``(N,)``.
        class_names: One name per column, such as ``clf.classes_``.
        weights: Weight of each sample ``(N,)``.
        groups: Group of each sample ``(N,)``.
        clusters: Cluster of each sample ``(N,)``.
        calibration: Other predictions of the same model to fit on: their calibration split, or all of them
            if they have none; of a table that is read part by part, random rows. The calibration split of
            ``predictions`` is then left out, which is noted.
        calibrators: Names such as ``"temperature"`` or ``'focal-temperature(objective="ece")'``, or
            calibrators, which are fitted anew; no two alike; with an empty list none is fitted, and all
            samples are evaluated, or the whole test split. By default ``"temperature"``,
            ``"focal-temperature"`` and the recommended one.
        positive_class: With two classes the one, by number or name, whose probability is evaluated; by
            default class 1. Two columns ``(N, 2)`` count as its one number ``(N,)`` would.
        cluster: The patient, document or image of each sample ``(N,)``, or ``"groups"`` if the groups are
            clusters; by default the ``clusters`` of the predictions. Samples of one cluster are not
            independent: intervals, p-values and the choice of a calibrator then are by whole clusters, and if
            a split is made, no cluster is on both sides (see
            :mod:`calibrant.evaluation.resampling.events`).
        num_bins: Bins of every calibration error and diagram.
        bootstrap: Resamples, at least 2; too few for the level (below 100, or 2 / (1 - level)) are noted.
        null_draws: Draws under perfect calibration, of which the bands of reliability diagrams take 200 at
            most; with fewer than ``1 / (1 - level)`` times the number of parts no error can count as real,
            which is noted.
        level: Level of every interval, and one minus the share of calibrated models that are called
            miscalibrated.
        intervals: For calibration errors, ``"inverted"`` tests, or bootstrap intervals: ``"centred"``,
            ``"percentile"`` or ``"bca"`` (bias-corrected and accelerated; for means, it leaves calibration
            errors near zero without an interval).
        tolerance: The calibration error that does not matter. If an error is above noise, but its whole
            interval is below this, the verdict is "calibrated within" it; the log loss still shows what a
            repair would gain. By default half a point, or less if a tenth of the rate is less: that of the
            rarer of two classes, the mean rate of labels, or 1 / C. 0 tolerates nothing.
        metrics: Quantities to measure in addition, such as ``"smooth_ece"``; ``calibrant evaluate
            --help`` lists them. Each takes a call of its function for every resample and draw of every arm.
        ood: Predictions of the same model for out-of-distribution samples (their test split, if any), to
            measure how well they are detected. Labels are not used.
        ood_score: The detection score: ``"entropy"`` (the default), ``"max_probability"`` (the default if
            only confidences are known), ``"max_logit"`` or ``"energy"`` (these need logits, and have no value
            after a calibrator).
        seed: Random seed; the same seed gives the same bits.
        command: The command line to record, if there was one.
        progress: Called with a few words and the share that is done.
        spread: Spreads the parts of tables, or images, as ``calibrant evaluate --engine`` does.

    Returns:
        Frozen data with ``to_json``, ``rows`` and ``arm``. Metrics are fractions, not per cent; NLL and
        entropies in nats. For a binary model ``ece`` is the top label's and ``event_ece`` the positive
        class's; for several labels per sample errors are means over the labels, and accuracy counts
        decisions.

    Raises:
        TypeError: If ``predictions`` or ``calibration`` are not predictions.
        InputError: If there are no labels, ``calibration`` does not fit, or an option is out of range.

    Note:
        A few seconds for 10 000 samples of 100 classes. Needs memory for the scores and some numbers per
        sample; the table of probabilities passes through in blocks.

    References:
        Vaicenavicius et al., "Evaluating model calibration in classification", AISTATS 2019 (resampling
        labels from the probabilities); Efron and Tibshirani, "An Introduction to the Bootstrap", 1993.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> log_odds = rng.normal(size=2000)
        >>> labels = rng.random(2000) < 1 / (1 + np.exp(-log_odds))
        >>> found = evaluate(logits=3 * log_odds, labels=labels, bootstrap=200, null_draws=200)
        >>> found.verdict.direction, found.num_calibration, found.num_test
        ('over-confident', 2000, 2000)
        >>> after, before = (found.arm(name).metrics["event_ece"] for name in ("temperature", "uncalibrated"))
        >>> after.value < before.value / 2
        True
    """
    given: Judgeable = arguments.from_arrays(
        predictions,
        positive_class,
        probs=probs,
        logits=logits,
        confidence=confidence,
        correct=correct,
        labels=labels,
        split=split,
        class_names=class_names,
        weights=weights,
        groups=groups,
        clusters=clusters,
    )
    arguments.refuse_with_sums(
        given,
        cluster=cluster,
        intervals=None if intervals == "inverted" else intervals,
        calibration=calibration,
        positive_class=positive_class,
        ood=ood,
        ood_score=ood_score,
    )
    as_drawn = None
    if isinstance(calibration, PartitionedPredictions):
        calibration, as_drawn = sampled_to_fit(calibration, given.source, seed, spread=spread)
    source = source_of(
        given,
        num_bins,
        name="predictions",
        calibration=calibration,
        positive_class=positive_class,
        cluster=cluster,
        seed=seed,
        fits=wants_calibrators(calibrators),
        spread=spread,
    )
    procedure = Procedure(
        kind=judged_kind(source.given),
        num_bins=num_bins,
        num_resamples=bootstrap,
        num_draws=null_draws,
        level=level,
        seed=seed,
        intervals=intervals,
        metrics=check_metrics(metrics),
    )
    _check(calibration, ood, ood_score, tolerance)
    wanted = templates(calibrators, procedure.kind)
    divided = source.split()
    if divided.calibration is None:
        wanted = []
    elif as_drawn is not None:
        divided = as_drawn(divided)
    procedure = with_fewer_resamples(procedure, divided)
    notes = notes_on(divided, procedure, calibration, bootstrap)
    more = calibrators is None  # one arm more, if another calibrator is chosen
    steps = Steps(progress, 2 * (len(wanted) + more) + 2 + (ood is not None))
    fitted = fit(divided, wanted, seed, steps, more=more)
    procedure, judged, first, num_test, said = judge(fitted.calibrators, source, divided, procedure, steps)
    notes, detected = (*notes, *said), None
    if ood is not None:
        steps.next("detecting out-of-distribution samples")
        as_given, test, said = source.familiar(divided)
        pair = test, arguments.as_judged(ood, positive_class)
        if ood_score in NEED_LOGITS and ood.kind == as_given.kind:
            pair = as_given, ood
        detected = detect(*pair, ood_score, fitted.calibrators, procedure)
        notes += said
    steps.finish()
    arms, on_classes = furthest_classes(judged)
    return Evaluation(
        schema_version=SCHEMA_VERSION,
        kind=procedure.kind,
        num_classes=divided.test.num_classes,
        class_names=None if on_classes else divided.test.class_names,
        num_calibration=divided.num_calibration,
        num_test=num_test,
        source=divided.test_as_given.source,
        settings=procedure.settings(divided.words, tuple(each.name for each in fitted.tried)),
        arms=arms,
        verdict=verdict_of(
            judged,
            first,
            fitted.recommendation,
            divided,
            calibration,
            num_test=num_test,
            tolerance=tolerance,
            warnings=alarms(divided.test, first.reduced),
        ),
        notes=(*notes, *fitted.failures, *on_classes),
        versions=versions(),
        command=command,
        out_of_distribution=detected,
        coverage=coverage_of(procedure, judged[0].metrics),
        choice=None if fitted.recommendation is None else fitted.recommendation.choice,
    )


def _check(
    calibration: object, ood: Predictions | None, ood_score: str | None, tolerance: float | None
) -> None:
    if calibration is not None:
        arguments.check_predictions(calibration, "calibration")
    if ood is not None:
        arguments.check_predictions(ood, "ood")
        refuse_too_few(len(ood), "`ood`")
    elif ood_score is not None:
        raise InputError("`ood_score` needs `ood`, out-of-distribution samples; got none.")
    if tolerance is None:
        return
    check_is_number("tolerance", tolerance)
    if not 0 <= tolerance < 1:
        raise InputError(f"`tolerance` must be a fraction in 0..1; got {tolerance:g}.")


MOST_LISTED = 200  # classes, of very many
MOST_DRAWN = 1 << 28  # rows drawn in all resamples together
FEWEST_RESAMPLES = 200
OF_OPTIMISM, MOST = 2.0, 1.8  # how much wider intervals become by cross-fitting, fixed by simulation

IN_PIECES = (
    "The scores were read in pieces, because they are large: the AUROC is not computed, and the class-wise "
    "ECE has no interval; everything else is what it would be in memory."
)
OF_WIDE = (
    f"There are more than {WIDE:,} classes: the AUROC is not computed, and the class-wise ECE has no "
    "interval."
)


def with_fewer_resamples(procedure: Procedure, split: Split) -> Procedure:
    """The procedure with fewer resamples if they would take hours; noise is small in large files."""
    if not split.test_as_given.streamed:
        return procedure
    most = max(FEWEST_RESAMPLES, MOST_DRAWN // split.test.num_samples)
    return replace(
        procedure, num_resamples=min(procedure.num_resamples, most), num_draws=min(procedure.num_draws, most)
    )


def notes_on(
    split: Split, procedure: Procedure, calibration: Predictions | None, asked: int
) -> tuple[str, ...]:
    """Notes on the samples for the reader; ``asked`` is the requested number of resamples."""
    held = split.calibration
    notes = other_notes(split.test)
    if calibration is not None:
        notes += [f"Calibration samples: {note}" for note in calibration.notes]
    if split.too_few:
        notes.append(f"No calibrator was fitted: {split.too_few}.")
    elif held is not None and (split.announce or (calibration is not None and has_both_parts(calibration))):
        notes.append(f"Calibrators were fitted on {split.words}.")
    if one_class_only(held):
        alike = "are all right or all wrong" if procedure.kind == "top_label" else "hold one class only"
        notes.append(f"The calibration samples {alike}: a calibrator learns nothing about the others.")
    elif held is not None and (missing := missing_classes(held)):
        shown = ", ".join(names_of(split.test)[k] for k in missing[:5]) + (", …" if len(missing) > 5 else "")
        which, do = ("Class", "does") if len(missing) == 1 else ("Classes", "do")
        notes.append(
            f"{which} {shown} {do} not occur among the calibration samples: calibrators with numbers for "
            "each class are tried only where they are named."
        )
    if split.dropped:
        notes.append(dropped_note(split.dropped))
    if not split.sampled:
        notes += clusters_note(split.test)
    if procedure.num_bins > split.test.num_samples:
        notes.append(
            f"Most of the {procedure.num_bins:,} bins are empty: there are fewer samples. Use fewer bins."
        )
    notes += few_resamples_note(procedure.num_resamples, procedure.level)
    num_parts = 1 + (procedure.kind == "multiclass") + (split.test.groups is not None)
    threshold = significance(procedure.level, num_parts)
    if not 1 / (1 + procedure.num_draws) < threshold:
        notes.append(
            f"With {procedure.num_draws} draws under calibration no error can count as real at this level; "
            f"take {math.floor(1 / threshold)} or more."
        )
    notes += [IN_PIECES] if split.test.streamed else [OF_WIDE] if is_wide(split.test) else []
    if (number := procedure.num_resamples) < asked:
        size = f"{split.test.num_samples:,} samples"
        notes.append(f"For {size} {number} resamples and draws were made, not {asked}.")
    return (*notes, *split.notes)


def judge(
    calibrators: Sequence[FittedCalibrator],
    source: Source,
    split: Split,
    procedure: Procedure,
    steps: Steps,
) -> tuple[Procedure, tuple[Arm, ...], Measured, int, tuple[str, ...]]:
    """Evaluate every arm on the same resamples.

    Returns:
        The procedure with the number of clusters, the arms, the first one measured, the number of samples or
        positions tested, and notes.
    """
    if source.reads:
        steps.next(f"reading the {source.reads}")
    tests, notes = source.read((None, *calibrators), split, steps.within)
    procedure = replace(procedure, clusters=tests[0].num_clusters)
    names, tell = names_of(split.test), steps.watching(split.test)

    def judged(
        fitted: FittedCalibrator | None, test: ArmSamples, first: Measured | None
    ) -> tuple[Arm, Measured]:
        steps.next(f"evaluating {'the predictions' if fitted is None else fitted.name}")
        give_back(split.test.num_samples)
        reduced = test.reduced(names, procedure.metrics)
        give_back(split.test.num_samples)
        if first is not None and fitted is not None and fitted.keeps_order:
            reduced = with_ranks_of(first.reduced, reduced)
        measured = measure(reduced, procedure, tell)
        arm = arm_of(fitted, measured, first, names, procedure)
        arm = with_groups(arm, test.group_rows(reduced, procedure), procedure.level)
        if reduced.clusters is None:  # the columns have been averaged
            for key in [*reduced.ratios][1:]:
                del reduced.ratios[key]
        return arm, measured

    arm, first = judged(None, tests[0], None)
    # Of many samples, what one arm measured is let go before the next needs as much memory.
    others = [judged(*pair, first)[0] for pair in zip(calibrators, tests[1:], strict=True)]
    return procedure, (arm, *others), first, tests[0].num_tested, notes


def arm_of(
    fitted: FittedCalibrator | None,
    measured: Measured,
    uncalibrated: Measured | None,
    names: tuple[str, ...],
    procedure: Procedure,
) -> Arm:
    """One arm; without a calibrator, the first one, which the others are compared with."""
    null, curves, parts, classes = against_chance(measured.noise, names)
    arm = Arm(
        name=UNCALIBRATED,
        title="Uncalibrated",
        parameters={},
        fit=None,
        metrics=measured.metrics,
        change={},
        null=null,
        curves=curves,
        classes=classes,
        shapes=shapes_of_arm(measured.reduced, procedure, names),
        parts=parts,
    )
    if fitted is None or uncalibrated is None:
        return arm
    changes, calibrator = change(measured, uncalibrated, procedure.level), fitted.calibrator
    if fitted.cross_fitted is not None:
        number, result = measured.reduced.effective_samples, calibrator.fit_result_
        changes = widened(changes, measured.metrics, result, number, procedure.level)
    return replace(
        arm,
        name=fitted.name,
        title=fitted.title,
        parameters=dict(calibrator.fit_result_.parameters),
        fit=fit_summary(calibrator),
        change=changes,
        fitted=calibrator,
    )


def judged_as_it_is(
    predictions: Predictions,
    *,
    positive_class: int | str | None = None,
    num_bins: int = 15,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[Kind, int, Arm]:
    """Kind, number of samples, and arm of uncalibrated predictions, on their test split if any."""
    test = test_of(as_judged(predictions, positive_class))
    procedure = Procedure(
        kind=test.kind,
        num_bins=num_bins,
        num_resamples=2,  # of the metrics' intervals, which nobody sees
        num_draws=1000,
        level=level,
        seed=seed,
        intervals="percentile",
    )
    measured = measure(reduce_predictions(test, num_bins), procedure)
    return test.kind, test.num_samples, arm_of(None, measured, None, names_of(test), procedure)


def widened(
    changes: Mapping[str, Estimate],
    after: Mapping[str, Estimate],
    fit: FitResult,
    number: float,  # of samples, or of clusters
    level: float,
) -> dict[str, Estimate]:
    r"""The changes with wider intervals, as cross-fitting correlates the losses of samples.

    Each sample takes part in the fits that evaluate the other ones. The variance that this adds to the change
    of the log loss is about :math:`2\omega/n`, with the optimism :math:`\omega`: the cross-fitted loss minus
    that of the samples of the fit. It matters most if the calibrator changes little. All changes of an arm
    are widened by one factor, by 2.8 times the variance at most.

    In simulations of Platt scaling by five folds (600 sets each), intervals contained the change in 78 to 94%
    of sets without this, and in 93 to 97% with it: ``benchmarks/cross_fitted_changes.py``.

    References:
        Bayle, Bayle, Janson and Mackey, "Cross-validation confidence intervals for test error", NeurIPS 2020
        (where the plain variance holds); Nadeau and Bengio, "Inference for the generalization error", Machine
        Learning 52, 2003.
    """
    known = fit.objective in {NLL.key, BRIER.key}
    change, found = (changes.get(fit.objective), after.get(fit.objective)) if known else (None, None)
    if change is None or found is None or found.value is None or change.low is None or change.high is None:
        return dict(changes)
    error = (change.high - change.low) / (2 * NormalDist().inv_cdf((1 + level) / 2))
    added = OF_OPTIMISM * max(0.0, found.value - fit.after) / number
    share = min(MOST, added / error**2) if error > 0 else 0.0
    return {name: _wider(each, math.sqrt(1 + share)) for name, each in changes.items()}


def _wider(estimate: Estimate, factor: float) -> Estimate:
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return estimate
    return replace(estimate, low=value - factor * (value - low), high=value + factor * (high - value))


def furthest_classes(arms: tuple[Arm, ...]) -> tuple[tuple[Arm, ...], tuple[str, ...]]:
    """Keep only the classes furthest off if there are very many, with a note."""
    rows = arms[0].classes
    if len(rows) <= WIDE:
        return arms, ()

    def nearness(row: ClassRow) -> tuple[float, float]:
        p_value = 1.0 if row.adjusted_p is None else row.adjusted_p
        return p_value, -abs(row.mean_probability - row.prevalence)

    kept = sorted(sorted(range(len(rows)), key=lambda k: nearness(rows[k]))[:MOST_LISTED])
    note = (
        f"Of {len(rows):,} classes the {MOST_LISTED} are listed whose mean probability is furthest from the "
        "share of samples that they have, by p-value and then by distance."
    )
    return tuple(replace(arm, classes=tuple(arm.classes[k] for k in kept)) for arm in arms), (note,)
