"""The stages of an evaluation: notes on the samples, fits, evaluation of every arm, verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from calibrant._math.errors import InputError
from calibrant._math.memory import give_back
from calibrant._math.notes import of_kind
from calibrant.calibrators import FitResult
from calibrant.evaluation.arguments import (
    WIDE,
    as_judged,
    clusters_note,
    dropped_note,
    few_resamples_note,
    is_wide,
    names_of,
    test_of,
)
from calibrant.evaluation.fitting import templates
from calibrant.evaluation.fitting.split import Split, has_both_parts
from calibrant.evaluation.fitting.templates import (
    LEAST_TO_CHOOSE,
    UNCALIBRATED,
    Recommendation,
    fit_to_rows,
    further,
    missing_classes,
    recommend,
)
from calibrant.evaluation.judging.diagrams import shapes_of_arm
from calibrant.evaluation.judging.groups import with_groups
from calibrant.evaluation.judging.measure import Measured, against_chance, change, measure
from calibrant.evaluation.judging.reduce import ArmSamples, Source, reduce_predictions, with_ranks_of
from calibrant.evaluation.phrases import with_group_sentence
from calibrant.evaluation.procedure import Procedure, Steps
from calibrant.evaluation.quantities import BRIER, NLL
from calibrant.evaluation.resampling.intervals import significance
from calibrant.evaluation.result import Arm, ClassRow, Estimate, Kind, Repair, Verdict
from calibrant.evaluation.source import alarms, other_notes
from calibrant.evaluation.verdict.case import Case
from calibrant.evaluation.verdict.verdict import reach_verdict
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import repaired
from calibrant.predictions.top_k import has_row_temperature

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


def one_class_only(predictions: Predictions | None) -> bool:
    """True if all samples are of the same class; with several labels per sample there is no such class."""
    labels = None if predictions is None else predictions.labels
    return labels is not None and labels.ndim == 1 and len(labels.unique()) == 1


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The calibrators, fitted, and the one that is recommended."""

    tried: list[templates.Template]  # those asked for, and the one that is recommended
    recommendation: Recommendation | None
    calibrators: list[templates.FittedCalibrator]
    failures: list[str]  # a sentence on each that could not be fitted


def fit(split: Split, wanted: Sequence[templates.Template], seed: int, steps: Steps, *, more: bool) -> Fitted:
    """Fit the wanted calibrators and the one chosen by cross-validation, from ``more`` candidates if set."""
    steps.next("choosing among the calibrators")
    held, wanted, recommendation = split.calibration, list(wanted), None
    enough = split.effective_calibration >= LEAST_TO_CHOOSE and not one_class_only(held)
    if held is not None and wanted and enough:
        others = further(held, wanted) if more else []
        recommendation = recommend([*wanted, *others], held, seed)
        wanted += [template for template in others if template.name == recommendation.name]
    if split.in_pieces is not None:
        split.in_pieces.watch(steps.within)  # once for each pass
    found = Fitted(tried=wanted, recommendation=recommendation, calibrators=[], failures=[])
    for template in wanted:
        steps.next(f"fitting {template.name}")
        try:
            fitted = _fit(template, split, recommendation, steps.within)
            if held is not None:
                templates.name_classes(fitted.calibrator, held.class_names, held.event_column)
            found.calibrators.append(fitted)
        except templates.FIT_FAILURES as error:
            found.failures.append(f"{template.name} could not be fitted: {error}")
    return found


def _fit(
    template: templates.Template, split: Split, chosen: Recommendation | None, tell: Callable[[float], None]
) -> templates.FittedCalibrator:
    """Fit a calibrator on all calibration samples, and on folds; reuse the fits of the choice."""
    if split.calibration is None:
        raise InputError("there are no samples to fit on.")
    if has_row_temperature(template.name, split.calibration):
        return fit_to_rows(template, split)
    if split.in_pieces is not None and template.calibrator.fits_in_pieces:
        return templates.FittedCalibrator(template, template.fit_in_pieces(split.in_pieces), None)
    data = templates.Labelled.of(split.calibration)
    known = None if chosen is None else chosen.fitted.get(template.name)
    calibrator = known or template.fit(data)
    if split.folds is None:
        return templates.FittedCalibrator(template, calibrator, None)
    on_others = None if chosen is None else chosen.on_others.get(template.name)
    if chosen is not None and chosen.folds is not None and on_others is not None:
        probs = templates.probs_in_turn(on_others, data, chosen.folds)
    else:
        probs = templates.cross_fit(template, data, split.folds, tell)
    return templates.FittedCalibrator(
        template, calibrator, repaired(split.test, probs), templates.ranks_alike(calibrator, data)
    )


def judge(
    calibrators: Sequence[templates.FittedCalibrator],
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
        fitted: templates.FittedCalibrator | None, test: ArmSamples, first: Measured | None
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
    others = [judged(*pair, first)[0] for pair in zip(calibrators, tests[1:], strict=True)]
    return procedure, (arm, *others), first, tests[0].num_tested, notes


def arm_of(
    fitted: templates.FittedCalibrator | None,
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
        fit=templates.fit_summary(calibrator),
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
    number: float,
    level: float,
) -> dict[str, Estimate]:
    r"""The changes with wider intervals, as cross-fitting correlates the losses of samples.

    Each sample takes part in the fits that evaluate the other ones. The variance that this adds to the change
    of the log loss is about :math:`2\omega/n`, with the optimism :math:`\omega`: the cross-fitted loss minus
    that of the samples of the fit. It matters most if the calibrator changes little. All changes of an arm
    are widened by one factor, by 2.8 times the variance at most.

    In simulations of Platt scaling by five folds (600 sets each), intervals contained the change in 78 to 94%
    of sets without this, and in 93 to 97% with it: ``benchmarks/cross_fitted_changes.py``.

    Args:
        changes: The changes of an arm.
        after: The arm's own values.
        fit: Its calibrator's fit to all samples.
        number: Number of samples, or of clusters.
        level: Level of the intervals.

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


def verdict_of(
    arms: tuple[Arm, ...],
    uncalibrated: Measured,
    recommendation: Recommendation | None,
    split: Split,
    calibration: Predictions | None,
    *,
    num_test: int,
    tolerance: float | None,
) -> Verdict:
    """The verdict; ``calibration`` are the predictions given to fit on."""
    warnings, procedure = alarms(split.test, uncalibrated.reduced), uncalibrated.noise.procedure
    case = Case(
        kind=procedure.kind,
        arms=arms,
        uncalibrated=uncalibrated,
        recommendation=None if of_kind(warnings, "useless") else recommendation,
        level=procedure.level,
        num_calibration=split.num_calibration,
        effective_calibration=split.effective_calibration,
        num_test=num_test,
        cross_fitted=split.folds is not None,
        one_class=one_class_only(split.calibration),
        tolerance=tolerance,
        warnings=warnings,
    )
    verdict = reach_verdict(case)
    if case.repaired:
        verdict = replace(verdict, repair=_repair(case.chosen.name, split, calibration))
    return with_group_sentence(verdict, arms[0].groups, split.test.groups, procedure.level)


def _repair(method: str, split: Split, calibration: Predictions | None) -> Repair:
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
