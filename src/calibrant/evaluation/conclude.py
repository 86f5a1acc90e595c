"""The last stage: what the numbers mean, and the frozen answer."""

from __future__ import annotations

from dataclasses import replace

from calibrant.evaluation.alarms import NO_BETTER, alarms
from calibrant.evaluation.fitting.split import has_both_parts
from calibrant.evaluation.judge import Judged
from calibrant.evaluation.measured_coverage import coverage_of
from calibrant.evaluation.prepare import Prepared
from calibrant.evaluation.procedure import versions
from calibrant.evaluation.result import SCHEMA_VERSION, Arm, ClassRow, Evaluation, Repair, Verdict
from calibrant.evaluation.thresholds import WIDE
from calibrant.evaluation.verdict.case import Case, with_groups
from calibrant.evaluation.verdict.verdict import reach_verdict

MOST_LISTED = 200  # classes, of very many


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
    return with_groups(verdict, judged.arms[0].groups, split.test.groups, level)


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
