"""``calibrant apply``."""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from calibrant._math.errors import InputError
from calibrant.cli import terminal
from calibrant.cli.reading import Reading, check_inputs, is_pipe, kept_of, reads
from calibrant.evaluation.read_options import told

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.predictions import ColumnNames, Predictions


@reads
def apply(
    calibrator: Annotated[Path, typer.Argument(help="Calibrator saved by `calibrant fit`.")],
    file: Annotated[Path, typer.Argument(help="Predictions; labels aren't needed.")],
    reading: Reading,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the calibrated predictions to this file.")],
    positive_class: str | None = terminal.POSITIVE_WORD,  # noqa: ARG001 (reading has it)
    label_shift: str | None = told(
        "em: estimate new class frequencies without labels and correct for them.", None, "METHOD"
    ),
    prior: str | None = told("Known class frequencies of FILE, e.g. 0.98,0.02.", None, "SHARES"),
    unknown_groups: Literal["error", "pooled"] | None = told(
        "Groups not seen in the fit: error, or pooled (calibrator of all).", None, "WHAT"
    ),
    raw: bool = told("Keep text that a spreadsheet would run as a formula.", False),
    intervals: bool = told("Venn-Abers: add columns lower and upper to the table.", False),
    force: terminal.Force = False,
) -> None:
    """Calibrate the probabilities in FILE with a saved calibrator.

    Examples:
        calibrant apply calibrator.safetensors new.npz -o calibrated.npz
        calibrant apply calibrator.safetensors new.csv -o calibrated.csv --prior 0.98,0.02
    """
    reading = reading.of_scores()
    check_inputs(calibrator, file)
    terminal.check_output(out, option="--out", inputs=[calibrator, file])
    shares = None if prior is None else _numbers(prior)

    from calibrant.calibrators import Calibrator, DetectionCalibration
    from calibrant.predictions.checks import one_sample_allowed
    from calibrant.predictions.dense import holds_images
    from calibrant.predictions.detections import detection_results
    from calibrant.repair.applying import apply as apply_to
    from calibrant.repair.applying import load_fitted, pooled

    lines: list[str] = []
    with terminal.progress(f"reading {file.name}") as tell, one_sample_allowed():
        try:
            loaded = load_fitted(calibrator)
        except InputError as error:
            _refuse_wrong_order(calibrator, file, error)
            raise
        given, columns = file, reading.columns
        if not isinstance(loaded, DetectionCalibration):
            _refuse_unused(reading, by_group=not isinstance(loaded, Calibrator))
            if is_pipe(file) or not (holds_images(file) or detection_results(file)):
                name = None
                if is_pipe(file):
                    file, form, name = kept_of(file, reading.format)
                    reading = replace(reading, format=form)
                given, columns = _loaded(pooled(loaded, str(calibrator)), reading, file, name)
        reading.refuse_other_class(given)
        tell(f"applying {calibrator.name}", 0.5)
        apply_to(
            calibrator,
            given,
            out,
            label_shift=cast('Literal["em"] | None', label_shift),
            prior=shares,
            unknown_groups=unknown_groups,
            annotations=reading.annotations,
            form_of=file,
            columns=columns,
            format=reading.format,
            raw=raw,
            intervals=intervals,
            force=force,
            say=lines.append,
        )
    typer.echo("\n".join(lines))


def _refuse_unused(reading: Reading, *, by_group: bool) -> None:
    reading.refuse("cluster", "iou", remedy="apply doesn't evaluate; leave it out.")
    if not by_group:
        of_groups = ("group_column", "bands", "annotations")
        reading.refuse(*of_groups, remedy="the calibrator is the same for all; leave it out.")


def _loaded(
    fitted: Calibrator, reading: Reading, file: Path, name: str | None
) -> tuple[Predictions, ColumnNames | None]:
    """Return new predictions and the columns used; the label column may be missing."""
    from calibrant.repair.applying import event_name

    reading = replace(reading, kind="multilabel") if fitted.kind_ == "multilabel" else reading
    reading = replace(reading, positive_class=reading.positive_class or event_name(fitted))
    try:
        return reading.load(file, name=name), reading.columns
    except InputError:
        unlabelled = replace(reading, label_column=None)
        if reading.label_column is not None:
            with contextlib.suppress(InputError):
                return unlabelled.load(file, name=name), unlabelled.columns
        raise


def _numbers(text: str) -> list[float] | float:
    """Parse ``0.98,0.02``; a single number is the share of class 1."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        msg = f"--prior must be numbers separated by commas, such as 0.98,0.02; got {text!r}."
        raise InputError(msg) from None
    return numbers if len(numbers) > 1 else numbers[0]


def _refuse_wrong_order(calibrator: Path, file: Path, error: InputError) -> None:
    """Explain the order of arguments if only the second file is a calibrator."""
    from calibrant.calibrators import load_calibrator

    try:
        load_calibrator(file)
    except (InputError, OSError):
        return
    command = shlex.join(["calibrant", "apply", str(file), str(calibrator)])
    raise InputError(
        f"the calibrator comes first, and {calibrator} is not one: {command} --out FILE."
    ) from error
