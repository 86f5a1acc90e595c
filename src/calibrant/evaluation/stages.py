"""The stages of an evaluation: prepare, fit, judge and conclude."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from calibrant._math.errors import InputError
from calibrant.calibrators import Calibrator, FitResult
from calibrant.evaluation.alarms import NO_BETTER, alarms, other_notes
from calibrant.evaluation.arguments import (
    as_judged,
    check_predictions,
    clusters_note,
    dropped_note,
    few_resamples_note,
)
from calibrant.evaluation.fitting import pieces
from calibrant.evaluation.fitting.recommend import (
    LEAST_TO_CHOOSE,
    UNCALIBRATED,
    Recommendation,
    further,
    missing_classes,
    recommend,
)
from calibrant.evaluation.fitting.split import (
    NOTHING_FITTED,
    Split,
    has_both_parts,
)
from calibrant.evaluation.fitting.templates import (
    FIT_FAILURES,
    FittedCalibrator,
    Labelled,
    Template,
    cross_fit,
    fit_summary,
    probs_in_turn,
    templates,
)
from calibrant.evaluation.fitting.top_k import fit_to_rows
from calibrant.evaluation.judging.groups import with_groups
from calibrant.evaluation.judging.measure import Measured, against_chance, change, measure
from calibrant.evaluation.judging.shapes import shapes_of_arm
from calibrant.evaluation.measured_coverage import coverage_of
from calibrant.evaluation.out_of_distribution import NEED_LOGITS, detect
from calibrant.evaluation.procedure import Procedure, Progress, Steps, versions
from calibrant.evaluation.quantities import BRIER, NLL
from calibrant.evaluation.result import (
    SCHEMA_VERSION,
    Arm,
    ClassRow,
    Estimate,
    Evaluation,
    OutOfDistribution,
    Repair,
    Verdict,
)
from calibrant.evaluation.samples import Drawn, Source
from calibrant.evaluation.thresholds import WIDE, significance
from calibrant.evaluation.verdict.case import Case, with_group_sentence
from calibrant.evaluation.verdict.verdict import reach_verdict
from calibrant.metrics.out_of_distribution import OutOfDistributionScore
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import repaired
from calibrant.predictions.top_k import has_row_temperature

MOST_LISTED = 200  # classes, of very many
OF_OPTIMISM, MOST = 2.0, 1.8  # how much wider intervals become by cross-fitting, fixed by simulation


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of :func:`calibrant.evaluate`."""

    calibration: Predictions | None
    drawn: Drawn | None
    """What the samples to fit on are, if they were drawn from a table."""
    calibrators: Sequence[str | Calibrator] | None
    positive_class: int | str | None
    procedure: Procedure
    tolerance: float | None
    ood: Predictions | None
    ood_score: OutOfDistributionScore | None
    command: str | None
    progress: Progress | None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A request that can be carried out."""

    request: Request
    procedure: Procedure
    split: Split
    """In the form that is judged: two classes as one event."""
    templates: tuple[Template, ...]  # the calibrators to try
    notes: tuple[str, ...]  # what a reader must know of the data beside the numbers
    steps: Steps

    @property
    def one_class(self) -> bool:
        """True if the calibration samples hold a single class."""
        return self.split.calibration is not None and one_class_only(self.split.calibration)


def prepare(request: Request, source: Source) -> Prepared:
    """Check the request, and choose the samples to fit and to judge on and the calibrators to try."""
    if request.calibration is not None:
        check_predictions(request.calibration, "calibration")
    if request.ood is not None:
        check_predictions(request.ood, "ood")
    elif request.ood_score is not None:
        raise InputError("`ood_score` goes with `ood`, the samples of another kind; there are none.")
    if request.tolerance is not None and not 0 <= request.tolerance < 1:
        raise InputError(
            "`tolerance` must be a fraction from 0 to 1, as in 0.005 for half a point; "
            f"got {request.tolerance:g}."
        )
    wanted = templates(request.calibrators, request.procedure.kind)
    split = source.split()
    if request.drawn is not None and split.calibration is not None:
        split = replace(split, words=request.drawn.words, marked=request.drawn.marked)
    procedure = pieces.with_fewer_resamples(request.procedure, split)
    if split.calibration is None:
        wanted = []
    arms = len(wanted) + (request.calibrators is None)  # one more if another calibrator is chosen
    return Prepared(
        request=request,
        procedure=procedure,
        split=split,
        templates=tuple(wanted),
        notes=_notes(request, split, procedure),
        steps=Steps(request.progress, 2 * arms + 2 + (request.ood is not None)),
    )


def _notes(request: Request, split: Split, procedure: Procedure) -> tuple[str, ...]:
    calibration = request.calibration
    notes = other_notes(split.test)
    if calibration is not None:
        notes += [f"Calibration samples: {note}" for note in calibration.notes]
    if split.calibration is None and split.words.startswith("none: ") and split.words != NOTHING_FITTED:
        notes.append(f"No calibrator was fitted: {split.words.removeprefix('none: ')}.")
    elif split.calibration is not None and (
        split.announce or (calibration is not None and has_both_parts(calibration))
    ):
        notes.append(f"Calibrators were fitted on {split.words}.")
    if split.calibration is not None and one_class_only(split.calibration):
        alike = "are all right or all wrong" if procedure.kind == "top_label" else "hold one class only"
        notes.append(f"The calibration samples {alike}: a calibrator learns nothing of the others.")
    elif split.calibration is not None and (missing := missing_classes(split.calibration)):
        names = split.test.class_names or tuple(range(split.test.num_classes or 0))
        shown = ", ".join(str(names[k]) for k in missing[:5]) + (", …" if len(missing) > 5 else "")
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
            f"There are more bins, {procedure.num_bins:,}, than test samples: most are empty, and what the "
            "others show is chance; take fewer."
        )
    notes += few_resamples_note(procedure.num_resamples, procedure.level)
    num_parts = 1 + (procedure.kind == "multiclass") + (split.test.groups is not None)
    threshold = significance(procedure.level, num_parts)
    if not 1 / (1 + procedure.num_draws) < threshold:
        notes.append(
            f"With {procedure.num_draws} draws under calibration no error can count as real at this level; "
            f"take {math.floor(1 / threshold)} or more."
        )
    notes += pieces.notes(split, procedure, request.procedure.num_resamples)
    if request.drawn is not None and request.drawn.announce and split.calibration is not None:
        notes.append(f"Calibrators were fitted on {request.drawn.words}.")
    return (*notes, *split.notes)


def one_class_only(predictions: Predictions) -> bool:
    """True if all samples are of the same class; with several labels per sample there is no such class."""
    labels = predictions.labels
    return labels is not None and labels.ndim == 1 and len(labels.unique()) == 1


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The calibrators, fitted, and the one that is recommended."""

    prepared: Prepared
    templates: tuple[Template, ...]
    """Those that were to be fitted: those asked for, and the one that is recommended."""
    recommendation: Recommendation | None
    calibrators: tuple[FittedCalibrator, ...]
    failures: tuple[str, ...]
    """A sentence on each that could not be fitted."""


def fit(prepared: Prepared) -> Fitted:
    """Choose a calibrator by cross-validation, and fit it and the others."""
    request, split, wanted = prepared.request, prepared.split, list(prepared.templates)
    prepared.steps.next("choosing among the calibrators")
    recommendation = None
    enough = split.effective_calibration >= LEAST_TO_CHOOSE and not prepared.one_class
    if split.calibration is not None and wanted and enough:
        others = [] if request.calibrators is not None else further(split.calibration, wanted)
        recommendation = recommend([*wanted, *others], split.calibration, request.procedure.seed)
        wanted += [template for template in others if template.name == recommendation.name]
    if split.in_pieces is not None:
        split.in_pieces.watch(prepared.steps.within)  # once for each pass
    fitted: list[FittedCalibrator] = []
    failures: list[str] = []
    for template in wanted:
        prepared.steps.next(f"fitting {template.name}")
        try:
            if split.calibration is not None and has_row_temperature(template.name, split.calibration):
                fitted.append(fit_to_rows(template, split))
                continue
            fitted.append(_fit(template, split, recommendation, prepared.steps.within))
        except FIT_FAILURES as error:
            failures.append(f"{template.name} could not be fitted: {error}")
    return Fitted(
        prepared=prepared,
        templates=tuple(wanted),
        recommendation=recommendation,
        calibrators=tuple(fitted),
        failures=tuple(failures),
    )


def _fit(
    template: Template, split: Split, chosen: Recommendation | None, tell: Callable[[float], None]
) -> FittedCalibrator:
    """A calibrator fitted on all calibration samples, and on folds; the fits of the choice are taken over."""
    if split.calibration is None:
        raise InputError("there are no samples to fit on.")
    if split.in_pieces is not None and template.calibrator.fits_in_pieces:
        return FittedCalibrator(template, template.fit_in_pieces(split.in_pieces), None)
    data = Labelled.of(split.calibration)
    known = None if chosen is None else chosen.fitted.get(template.name)
    calibrator = known or template.fit(data)
    if split.folds is None:
        return FittedCalibrator(template, calibrator, None)
    on_others = None if chosen is None else chosen.on_others.get(template.name)
    if chosen is not None and chosen.folds is not None and on_others is not None:
        probs = probs_in_turn(on_others, data, chosen.folds)
    else:
        probs = cross_fit(template, data, split.folds, tell)
    return FittedCalibrator(template, calibrator, repaired(split.test, probs))


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Every arm with its numbers."""

    fitted: Fitted
    arms: tuple[Arm, ...]
    uncalibrated: Measured  # what the verdict needs of the first arm
    num_test: int  # samples, or positions of images
    out_of_distribution: OutOfDistribution | None


def judge(fitted: Fitted, source: Source) -> Judged:
    """Evaluate every arm on the same resamples, and the detection of out-of-distribution samples."""
    prepared, arms = fitted.prepared, (None, *fitted.calibrators)
    steps, split, request = prepared.steps, prepared.split, prepared.request
    if source.reads:
        steps.next(f"reading the {source.reads}")
    tests, notes = source.read(arms, split, steps.within)
    procedure = replace(prepared.procedure, clusters=tests[0].num_clusters)
    names = tuple(str(name) for name in split.test.class_names or range(split.test.num_classes or 0))
    tell = steps.watching(split.test)
    made: list[Arm] = []
    first: list[Measured] = []
    for each, test in zip(arms, tests, strict=True):
        steps.next(f"evaluating {'the predictions' if each is None else each.name}")
        reduced = test.reduced(names, procedure.metrics)
        measured = measure(reduced, procedure, tell)
        arm = arm_of(each, measured, first[0] if first else None, names, procedure)
        made.append(with_groups(arm, test.group_rows(reduced, procedure), procedure.level))
        first = first or [measured]
    detected = None
    if request.ood is not None:
        steps.next("detecting out-of-distribution samples")
        given, test, said = source.familiar(split)
        notes += said
        pair = test, as_judged(request.ood, request.positive_class)
        if request.ood_score in NEED_LOGITS and request.ood.kind == given.kind:
            pair = given, request.ood
        detected = detect(*pair, request.ood_score, fitted.calibrators, procedure)
    steps.finish()
    prepared = replace(prepared, procedure=procedure, notes=(*prepared.notes, *notes))
    return Judged(
        fitted=replace(fitted, prepared=prepared),
        arms=tuple(made),
        uncalibrated=first[0],
        num_test=tests[0].num_tested,
        out_of_distribution=detected,
    )


def arm_of(
    fitted: FittedCalibrator | None,
    measured: Measured,
    uncalibrated: Measured | None,
    names: tuple[str, ...],
    procedure: Procedure,
) -> Arm:
    """One arm; without a calibrator the first, against which the others change."""
    chance = against_chance(measured.noise, names)
    changes = {} if uncalibrated is None else change(measured, uncalibrated, procedure.level)
    if fitted is not None and fitted.cross_fitted is not None:
        number, result = measured.reduced.effective_samples, fitted.calibrator.fit_result_
        changes = widened(changes, measured.metrics, result, number, procedure.level)
    return Arm(
        name=UNCALIBRATED if fitted is None else fitted.name,
        title="Uncalibrated" if fitted is None else fitted.title,
        parameters={} if fitted is None else dict(fitted.calibrator.fit_result_.parameters),
        fit=None if fitted is None else fit_summary(fitted.calibrator),
        metrics=measured.metrics,
        change=changes,
        null=chance.null,
        curves=chance.curves,
        classes=chance.classes,
        shapes=shapes_of_arm(measured.reduced, procedure),
        parts=chance.parts,
    )


def widened(
    changes: Mapping[str, Estimate],
    after: Mapping[str, Estimate],
    fit: FitResult,
    number: float,
    level: float,
) -> dict[str, Estimate]:
    r"""The changes with wider intervals, if samples were judged by calibrators fitted on the other folds.

    Each sample takes part in the fits that judge the other ones, so their losses are correlated. The
    variance that this adds to the change of the log-loss is about :math:`2 \omega / n`, with the optimism
    :math:`\omega`: the cross-fitted loss minus that of the samples of the fit. It is worth most where the
    calibrator changes little. All changes of an arm are widened alike, by 2.8 times the variance at most.

    In simulations of Platt scaling by five folds (600 sets each), intervals contained the change in 78 to 94%
    of sets without this, and in 93 to 97% with it: ``benchmarks/cross_fitted_changes.py``.

    Args:
        changes: The changes of an arm.
        after: The arm's own values.
        fit: Its calibrator's fit to all samples.
        number: How many samples there are, or clusters.
        level: That of the intervals.

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


def conclude(judged: Judged) -> Evaluation:
    """The verdict, and everything that a reader needs to trust it."""
    fitted, prepared = judged.fitted, judged.fitted.prepared
    split, procedure = prepared.split, prepared.procedure
    arms, names, notes = _listed(judged.arms, split.test.class_names)
    return Evaluation(
        schema_version=SCHEMA_VERSION,
        kind=procedure.kind,
        num_classes=split.test.num_classes,
        class_names=names,
        num_calibration=split.num_calibration,
        num_test=judged.num_test,
        source=split.test_as_given.source,
        settings=procedure.settings(split.words, tuple(template.name for template in fitted.templates)),
        arms=arms,
        verdict=_verdict(judged),
        notes=(*prepared.notes, *fitted.failures, *notes),
        versions=versions(),
        command=prepared.request.command,
        out_of_distribution=judged.out_of_distribution,
        coverage=coverage_of(procedure, judged.arms[0].metrics),
        choice=None if fitted.recommendation is None else fitted.recommendation.choice,
    )


def _listed(
    arms: tuple[Arm, ...], names: tuple[str, ...] | None
) -> tuple[tuple[Arm, ...], tuple[str, ...] | None, tuple[str, ...]]:
    """Classes furthest off if there are very many, with a note; a table of all would be no use."""
    rows = arms[0].classes
    if len(rows) <= WIDE:
        return arms, names, ()
    worst = sorted(range(len(rows)), key=lambda k: _distance(rows[k]))[:MOST_LISTED]
    kept = sorted(worst)
    listed = tuple(replace(arm, classes=tuple(arm.classes[k] for k in kept)) for arm in arms)
    note = (
        f"Of {len(rows):,} classes the {MOST_LISTED} are listed whose mean probability is furthest from the "
        "share of samples that they have, by p-value and then by distance."
    )
    return listed, None, (note,)


def _distance(row: ClassRow) -> tuple[float, float]:
    return (
        1.0 if row.adjusted_p is None else row.adjusted_p,
        -abs(row.mean_probability - row.prevalence),
    )


def _verdict(judged: Judged) -> Verdict:
    fitted, prepared = judged.fitted, judged.fitted.prepared
    split, level = prepared.split, prepared.procedure.level
    warnings = alarms(prepared.split.test, judged.uncalibrated.reduced)
    useless = any(warning.startswith(NO_BETTER) for warning in warnings)
    case = Case(
        kind=prepared.procedure.kind,
        arms=judged.arms,
        uncalibrated=judged.uncalibrated,
        recommendation=None if useless else fitted.recommendation,
        level=level,
        num_calibration=split.num_calibration,
        effective_calibration=split.effective_calibration,
        num_test=judged.num_test,
        cross_fitted=split.folds is not None,
        one_class=prepared.one_class,
        tolerance=prepared.request.tolerance,
        warnings=warnings,
        useless=useless,
    )
    verdict = reach_verdict(case)
    if case.repaired:
        verdict = replace(verdict, repair=_repair(prepared, case.chosen.name))
    return with_group_sentence(verdict, judged.arms[0].groups, split.test.groups, level)


def _repair(prepared: Prepared, method: str) -> Repair:
    """The repair to recommend, with its file; all rows if the file has no split."""
    split, calibration = prepared.split, prepared.request.calibration
    given = split.test_as_given
    source = (given if calibration is None else calibration).source
    marked = not (split.announce or split.drawn)
    if calibration is not None:
        marked = split.marked or has_both_parts(calibration)
    return Repair(
        method=method,
        file=None if source is None else source.path or source.name,
        all_rows=not marked,
        format="npz" if given.source is None else given.source.format,
        space=given.space,
    )
