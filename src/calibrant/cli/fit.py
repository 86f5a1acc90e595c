"""``calibrant fit``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant._math.decimals import plural
from calibrant._math.errors import InputError
from calibrant.cli.choosing import chosen, fit_to_all, reads_pieces
from calibrant.cli.dense import IgnoreIndex, positions_to_fit
from calibrant.cli.detection import fit_boxes, is_for_detections
from calibrant.cli.fit_by_sums import fit_by_sums
from calibrant.cli.parts import EngineOption, JobsOption, opened_large, refuse_jobs
from calibrant.cli.reading import Reading, check_inputs, reads
from calibrant.cli.terminal import Force, check_output, progress, refuse_calibrated, write_unless_other

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.predictions import Predictions


MULTICALIBRATION = "multicalibration"
_MOST_SHOWN = 5  # corrections
_MOST_GROUPS = 20  # shown
_MOST_LISTED = 6  # parameters of one name


@reads
def fit(
    file: Annotated[Path, typer.Argument(help="Predictions with labels.")],
    reading: Reading,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the calibrator to this .safetensors file.")],
    method: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD", help="Calibrator; see `calibrant methods` (default: by cross-validation)."
        ),
    ] = None,
    every_row: Annotated[
        bool, typer.Option("--all", help="Fit on every row, not only on the calibration split.")
    ] = False,
    by_group: Annotated[
        bool,
        typer.Option(
            "--by-group",
            help="Fit one calibrator per group; small groups are pooled with the rest.",
        ),
    ] = False,
    ignore_index: IgnoreIndex = None,
    engine: EngineOption = None,
    jobs: JobsOption = None,
    force: Force = False,
) -> None:
    """Fit a calibrator on the calibration split of FILE and save it.

    Examples:
        calibrant fit predictions.npz -o calibrator.safetensors
        calibrant fit predictions.npz --method vector -o vector.safetensors
    """
    reading = reading.of_scores()
    check_inputs(file)
    check_output(out, endings=(".safetensors",), option="--out", inputs=[file])
    refuse_jobs(engine, jobs)

    from calibrant.calibrators import build
    from calibrant.predictions import DensePredictions
    from calibrant.predictions.dense import marks_in
    from calibrant.predictions.to_event import to_repair

    if is_for_detections(method):
        _refuse_beside_boxes({"--ignore-index": ignore_index, "--engine": engine, "--by-group": by_group})
        if not force:
            refuse_to_replace_another_file(out)
        typer.echo("\n".join(fit_boxes(file, reading, method or "", out, every_row=every_row, force=force)))
        return
    several = method == MULTICALIBRATION
    _refuse_unused(reading, of_groups=several or by_group, to_choose=method is None)
    calibrator = None if method is None or several else build(method)
    with progress(f"reading {file.name}") as tell:
        whole = "--by-group" if by_group else f"--method {method}" if several else ""
        large = opened_large(file, reading, engine=engine, ignore_index=ignore_index, whole=whole)
        known = (
            marks_in(file) if isinstance(large, DensePredictions) else () if large is None else large.notes
        )
        refuse_calibrated(file, known, force=force)
        found = None if whole else fit_by_sums(large, method, engine, jobs, every_row=every_row, tell=tell)
        if found is not None:
            _save(found.calibrator, out, found.class_names, force=force)
            typer.echo("\n".join([*summary(found.calibrator, found.notes), f"calibrator: {out}"]))
            return
        predictions = positions_to_fit(large) if isinstance(large, DensePredictions) else reading.open(file)
        refuse_calibrated(file, predictions.notes, force=force)
        rows = rows_to_fit(
            predictions,
            file,
            every_row=every_row,
            needs_groups=f"--method {method}" if several else "--by-group" if by_group else None,
        )
        rows = rows if reads_pieces(None if by_group else calibrator, rows) else rows.loaded()
        if calibrator is None or "binary" in calibrator.kinds:
            rows = to_repair(rows)
        elif rows.kind == "top_label":
            suited = " and ".join(calibrator.kinds)
            raise InputError(
                f"{calibrator.name} is for {suited} predictions; {file} holds confidences: take platt."
            )
        if (several or by_group) and any(":" not in each for each in reading.bands):
            raise InputError(
                "--bands must say where bands begin, as in position:0:128:512, so that they are the same in "
                f"every file; got {','.join(reading.bands)}."
            )
        if not force:
            refuse_to_replace_another_file(out)
        if several:
            tell("correcting group by group", 0.3)
            said = fit_overlapping(rows, out, force=force)
            typer.echo("\n".join([*said, *(f"note: {note}" for note in predictions.notes)]))
            return
        if calibrator is None:
            tell(f"choosing a calibrator by {rows.num_samples} samples", 0.2)
            calibrator = chosen(rows)
        elif not by_group:
            tell(f"fitting {calibrator.name} on {rows.num_samples} samples", 0.3)
            calibrator = fit_to_all(calibrator, rows)
        if by_group:
            tell(f"fitting {calibrator.name} by group", 0.5)
            said = fit_by_group(calibrator, rows, out, force=force)
            typer.echo("\n".join([*said, *(f"note: {note}" for note in predictions.notes)]))
            return
        calibrator.class_names_ = rows.class_names if calibrator.kind_ == rows.kind else None
        write_unless_other(out, calibrator.save, option="--out", force=force)

    typer.echo("\n".join([*summary(calibrator, predictions.notes), f"calibrator: {out}"]))


def _refuse_unused(reading: Reading, *, of_groups: bool, to_choose: bool) -> None:
    """Refuse groups beside one calibrator for all, and clusters beside a method that was chosen."""
    if not of_groups:
        reading.refuse("group_column", "bands", remedy="one calibrator is for all; give --by-group.")
    if not to_choose:
        reading.refuse("cluster", remedy="clusters only matter to choose a method; leave it out.")


def _refuse_beside_boxes(given: dict[str, object]) -> None:
    """Refuse what a calibrator of detections does not heed."""
    if option := next(
        (name for name, value in given.items() if value is not None and value is not False), None
    ):
        raise InputError(f"{option} does not go with calibrators of detections; leave it out.")


def _save(calibrator: Calibrator, out: Path, class_names: tuple[str, ...] | None, *, force: bool) -> None:
    """Write it; only a calibrator is replaced."""
    if not force:
        refuse_to_replace_another_file(out)
    number = 2 if calibrator.kind_ == "binary" else calibrator.num_classes_
    calibrator.class_names_ = class_names if len(class_names or ()) == number else None
    write_unless_other(out, calibrator.save, option="--out", force=force)


def summary(calibrator: Calibrator, notes: Sequence[str]) -> list[str]:
    """What was fitted, and how well."""
    result = calibrator.fit_result_
    return [
        f"{calibrator.name}, fitted on {result.num_samples} samples: {described(calibrator)}",
        f"{result.objective}: {result.before:.6g} before, {result.after:.6g} after ({result.message})",
        *(f"note: {note}" for note in (*notes, *result.warnings)),
    ]


def rows_to_fit(
    predictions: Predictions, file: Path, *, every_row: bool, needs_groups: str | None
) -> Predictions:
    """The calibration split, or all rows; refused where no calibrator can be fitted on them."""
    if predictions.kind == "top_label":
        _ = predictions.correct  # refused where it is not known
    elif predictions.labels is None:
        raise InputError(f"{file} has no labels, so no calibrator can be fitted on it; add `labels`.")
    if not every_row and not predictions.has_calibration:
        msg = (
            f"{file} has no calibration split; add `split` (0 = calibration, 1 = test), "
            "or fit on every row with --all."
        )
        raise InputError(msg)
    if needs_groups and predictions.groups is None:
        raise InputError(
            f"{needs_groups} needs `groups` in {file}, one name per sample; --group-column says which column "
            "holds them."
        )
    rows = predictions if every_row else predictions.calibration
    if needs_groups and rows.groups is not None:
        refuse_ids(rows.groups, file)
    return rows


def refuse_ids(groups: Sequence[str], file: Path) -> None:
    """Refuse groups that nearly all hold one sample: nothing is fitted to those."""
    named = len(set(groups))
    if named > _MOST_GROUPS and len(groups) < 2 * named:
        raise InputError(
            f"{file} has {named:,} groups in {len(groups):,} samples, which looks like an id; "
            "--group-column must name a column of groups that many samples share."
        )


def fit_by_group(calibrator: Calibrator, rows: Predictions, out: Path, *, force: bool) -> list[str]:
    """Fit and save a calibrator for each group; what to say of it."""
    import warnings

    from calibrant._math.errors import CalibrantWarning
    from calibrant.calibrators import fit_groups

    if rows.groups is None or rows.labels is None:
        raise InputError("there must be groups and labels")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrantWarning)
        fitted = fit_groups(calibrator, rows.scores, rows.labels, groups=rows.groups, weights=rows.weights)
    groups = plural(len(fitted.by_group), "group")
    lines = [f"{calibrator.name}, fitted on {plural(rows.num_samples, 'sample')} of {groups}"]
    counts = Counter(rows.groups)
    lines.append(f"  all groups, {rows.num_samples} samples: {described(fitted.pooled)}")
    for part in (fitted.pooled, *fitted.by_group.values()):
        part.class_names_ = rows.class_names
    for name, part in list(fitted.by_group.items())[:_MOST_GROUPS]:
        lines.append(f"  {name}, {counts[name]} samples: {described(part)}")
    if len(counts) > _MOST_GROUPS:
        lines.append(f"  and {len(counts) - _MOST_GROUPS} more")
    lines += [f"note: {warning.message}" for warning in caught]
    write_unless_other(out, fitted.save, option="--out", force=force)
    return [*lines, f"calibrators: {out}"]


def fit_overlapping(rows: Predictions, out: Path, *, force: bool) -> list[str]:
    """Fit and save a multicalibrator, after a calibrator for all; what to say of it."""
    from calibrant._math.errors import without_warnings
    from calibrant.calibrators import multicalibrate

    if rows.groups is None or rows.labels is None:
        raise InputError("there must be groups and labels")
    start = "temperature" if rows.kind == "multiclass" else "platt"
    with without_warnings():
        fitted = multicalibrate(
            rows.scores, rows.labels, groups=rows.groups, weights=rows.weights, start=start
        )
    if fitted.start is not None:
        fitted.start.class_names_ = rows.class_names
    write_unless_other(out, fitted.save, option="--out", force=force)
    said = (
        f"{MULTICALIBRATION} after {start}, fitted on {plural(rows.num_samples, 'sample')} of "
        f"{plural(len(fitted.groups), 'group')}: {plural(len(fitted.corrections), 'correction')}"
    )
    lines = [
        f"  {each.group or 'all'}, {each.count:g} samples, {each.low:g} to {each.high:g}: {each.shift:+.3f}"
        for each in fitted.corrections[:_MOST_SHOWN]
    ]
    if len(fitted.corrections) > _MOST_SHOWN:
        lines.append(f"  and {len(fitted.corrections) - _MOST_SHOWN} more")
    return [said, *lines, f"calibrator: {out}"]


def refuse_to_replace_another_file(out: Path) -> None:
    """Predictions may end in .safetensors too; only a calibrator may be replaced by a calibrator."""
    from calibrant.calibrators.file_format import DETECTION_KEY, holds
    from calibrant.calibrators.files import load_either

    if not out.exists() or holds(out, DETECTION_KEY):
        return
    try:
        load_either(out)
    except InputError as error:
        msg = f"--out {out} exists and is not a calibrator, so it is not replaced; give another name."
        raise InputError(msg) from error


def described(calibrator: Calibrator) -> str:
    """``temperature = 1.31, gamma = 0.25``; long lists are cut, and tables only counted."""
    if calibrator.parameter_shapes:
        return f"{calibrator.size} numbers"
    parts: list[str] = []
    for name, value in calibrator.fit_result_.parameters.items():
        if isinstance(value, tuple):
            shown = ", ".join(f"{entry:.4g}" for entry in value[:_MOST_LISTED])
            parts.append(f"{name} = [{shown}{', …' if len(value) > _MOST_LISTED else ''}]")
        else:
            parts.append(f"{name} = {value:.4g}")
    return ", ".join(parts)
