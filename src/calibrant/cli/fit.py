"""``calibrant fit``, and ``calibrant methods``, which lists what it can fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant._math.errors import InputError
from calibrant._math.files import write_unless_other
from calibrant._math.text_form import plural
from calibrant.cli import terminal
from calibrant.cli.opening import opened_large, shared_out
from calibrant.cli.reading import Reading, check_inputs, reads
from calibrant.cli.verbosity import VERBOSE
from calibrant.evaluation.read_options import told

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator, FitResult, GroupCalibrator
    from calibrant.repair.fitting import FitReport

_MOST_SHOWN = 5  # corrections
_MOST_GROUPS = 20  # shown
_MOST_LISTED = 6  # parameters of one name


@reads
def fit(
    file: Annotated[Path, typer.Argument(help="Predictions with labels.")],
    reading: Reading,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the calibrator to this .safetensors file.")],
    method: str | None = told(
        "Calibrator; see `calibrant methods` (default: by cross-validation).", None, "METHOD"
    ),
    every_row: bool = told("Fit on every row, not only on the calibration split.", False, None, "--all"),
    by_group: bool = told("Fit one calibrator per group; small groups are pooled with the rest.", False),
    positive_class: str | None = terminal.POSITIVE_WORD,  # noqa: ARG001 (reading has it)
    ignore_index: int | None = terminal.IGNORE_INDEX,
    engine: str | None = terminal.ENGINE,
    jobs: int | None = terminal.JOBS,
    force: terminal.Force = False,
) -> None:
    """Fit a calibrator on the calibration split of FILE and save it.

    Examples:
        calibrant fit predictions.npz -o calibrator.safetensors
        calibrant fit predictions.npz --method vector -o vector.safetensors
    """
    reading = reading.of_scores()
    check_inputs(file)
    terminal.check_output(out, endings=(".safetensors",), option="--out", inputs=[file])

    from calibrant.predictions import load_detections
    from calibrant.repair.fitting import DETECTION, MULTICALIBRATION, check_method, fit_and_tell

    check_method(method)
    for_boxes = method is not None and method.startswith(DETECTION)
    whole = "--by-group" if by_group else f"--method {method}" if method == MULTICALIBRATION else ""
    if for_boxes:
        beside = {"--ignore-index": ignore_index, "--engine": engine, "--by-group": by_group or None}
        if option := next((name for name, value in beside.items() if value is not None), None):
            raise InputError(f"{option} does not go with calibrators of detections; leave it out.")
    else:
        _refuse_unused(reading, of_groups=bool(whole), to_choose=method is None)
    refuse_to_replace_another_file(out, force=force)
    with terminal.progress(f"reading {file.name}") as tell, shared_out(engine, jobs) as spread:
        if for_boxes and reading.annotations is not None:
            given = load_detections(file, reading.annotations, iou=reading.iou)
        else:
            large = opened_large(file, reading, engine=engine, ignore_index=ignore_index, whole=whole)
            given = large or reading.open(file)
        reading.refuse_other_class(given)
        found = fit_and_tell(
            given,
            path=file,
            method=method,
            every_row=every_row,
            by_group=by_group,
            force=force,
            spread=None if engine is None else spread,
            progress=tell,
        )
        write_unless_other(out, found.save, option="--out", force=force)
    typer.echo("\n".join([*found.choice, *_lines(found, method, out)]))


def _refuse_unused(reading: Reading, *, of_groups: bool, to_choose: bool) -> None:
    if not of_groups:
        reading.refuse("group_column", "bands", remedy="one calibrator serves all; add --by-group.")
    elif any(":" not in each for each in reading.bands):
        raise InputError(
            "--bands must give the starts of bands, as in position:0:128:512, so that they are the same in "
            f"every file; got {','.join(reading.bands)}."
        )
    if not to_choose:
        reading.refuse("cluster", remedy="clusters only matter to choose a method; leave it out.")


def refuse_to_replace_another_file(out: Path, *, force: bool) -> None:
    """Refuse to replace anything but a calibrator; predictions can also end in .safetensors."""
    from calibrant.repair.applying import load_fitted

    if force or not out.exists():
        return
    try:
        load_fitted(out)
    except InputError as error:
        raise InputError(
            f"--out {out} exists and is not a calibrator, so it is not replaced; give another name."
        ) from error


def _lines(found: FitReport, method: str | None, out: Path) -> list[str]:
    from calibrant.calibrators import DetectionCalibration, GroupCalibrator, Multicalibrator

    calibrator, samples = found.calibrator, found.counts.total()
    notes, warned = ([f"note: {each}" for each in told] for told in (found.notes, found.warnings))
    if isinstance(calibrator, GroupCalibrator):
        return [*_groups(calibrator, found.counts), *warned, f"Calibrators: {out}", *notes]
    where = f"Calibrator: {out}"
    if isinstance(calibrator, DetectionCalibration):
        by, images = ", ".join(("confidence", *calibrator.covariates)), plural(len(found.counts), "image")
        said = f"{method}, fitted on {plural(samples, 'detection')} in {images} by {by}"
        return [said, f"Log loss on these samples: {calibrator.loss:.3g}", *warned, where]
    if isinstance(calibrator, Multicalibrator):
        start = "" if calibrator.start is None else calibrator.start.name
        corrections = calibrator.corrections
        said = (
            f"{method} after {start}, fitted on {plural(samples, 'sample')} of "
            f"{plural(len(calibrator.groups), 'group')}: {plural(len(corrections), 'correction')}"
        )
        lines = [
            f"  {at.group or 'all'}, {at.count:g} samples, {at.low:g} to {at.high:g}: {at.shift:+.3f}"
            for at in corrections[:_MOST_SHOWN]
        ]
        return [said, *lines, *_rest(len(corrections) - _MOST_SHOWN), where, *notes]
    result = calibrator.fit_result_
    return [
        f"{calibrator.name}, fitted on {plural(result.num_samples, 'sample')}: {_described(calibrator)}",
        _course(result),
        *notes,
        *(f"note: {told}" for told in result.message.split("; ")[not VERBOSE.get() :]),
        *(f"note: {warning}" for warning in result.warnings),
        where,
    ]


def _course(result: FitResult) -> str:
    """Return ``Log loss on these samples: 0.445 before, 0.360 after``."""
    from calibrant.evaluation.phrases import decimals_apart, number
    from calibrant.evaluation.quantities import QUANTITIES

    asked = result.objective
    title = next((each.title for each in QUANTITIES if each.key in {asked, f"{asked}_ece"}), asked)
    digits = decimals_apart(result.before, result.after)
    before, after = (number(each, digits) for each in (result.before, result.after))
    return f"{title} on these samples: {before} before, {after} after"


def _groups(fitted: GroupCalibrator, counts: Mapping[str, int]) -> list[str]:
    samples = sum(counts.values())
    each_of_them = plural(len(fitted.by_group), "group")
    return [
        f"{fitted.pooled.name}, fitted on {plural(samples, 'sample')} of {each_of_them}",
        f"  all groups, {samples:,} samples: {_described(fitted.pooled)}",
        *(
            f"  {name}, {counts[name]:,} samples: {_described(part)}"
            for name, part in list(fitted.by_group.items())[:_MOST_GROUPS]
        ),
        *_rest(len(counts) - _MOST_GROUPS),
    ]


def _rest(number: int) -> list[str]:
    return [f"  and {number} more"] if number > 0 else []


def _described(calibrator: Calibrator) -> str:
    """Return ``temperature = 1.31, gamma = 0.25``; long lists are cut, and tables only counted."""
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


SHORT = {"binary": "2 classes", "multiclass": "classes", "multilabel": "labels"}


def methods() -> None:
    """List the calibrators that fit and evaluate can use.

    Examples:
        calibrant methods
        calibrant fit predictions.npz --method 'temperature(objective="ece")' -o calibrator.safetensors
    """
    from rich.console import Console

    from calibrant.calibrators.roster import CALIBRATORS
    from calibrant.reports.terminal_table import plain_table

    table = plain_table()
    for title in ("method", "what it does", "parameters", "for"):
        table.add_column(title, no_wrap=title in {"method", "parameters"})
    for name, kind in CALIBRATORS.items():
        table.add_row(name, str(kind.__doc__).partition("\n")[0].rstrip("."), parameters(kind), needs(kind))
    Console(highlight=False).print(table)
    typer.echo(
        "C: classes; K: 1 for two classes, else C; M: steps or bins.\n"
        'Settings go in brackets: temperature(search="grid"). For overlapping groups, `calibrant fit` also\n'
        "takes multicalibration; for COCO detections detection-logistic, detection-dependent-logistic and\n"
        "detection-beta."
    )


def parameters(kind: type[Calibrator]) -> str:
    """Return the number of parameters that a method fits, for one problem.

    Example:
        >>> from calibrant.calibrators import TemperatureScaling, VectorScaling
        >>> parameters(TemperatureScaling), parameters(VectorScaling)
        ('1', '2 C')
    """
    if not kind.parameter_shapes:
        return str(len(kind.parameter_ranges))
    shapes = ["".join(each) for each in kind.parameter_shapes.values()]
    counts = {shape: shapes.count(shape) for shape in dict.fromkeys(shapes)}
    powers = {"CC": "C²", "KM": "K M"}
    return " + ".join(
        f"{count if count > 1 else ''} {powers.get(shape, shape)}".strip() for shape, count in counts.items()
    )


def needs(kind: type[Calibrator]) -> str:
    return (
        "all predictions"
        if len(kind.kinds) == len(SHORT)
        else " or ".join(SHORT[each] for each in kind.kinds)
    )
