"""``calibrant apply``."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calibrant._math.errors import InputError
from calibrant.cli.dense import apply_to_images
from calibrant.cli.detection import apply_to_boxes
from calibrant.cli.reading import Reading, check_inputs, is_pipe, reads
from calibrant.cli.terminal import Force, check_output, progress, refuse_calibrated, write_unless_other
from calibrant.cli.top_k import apply_to_top_k

if TYPE_CHECKING:
    from torch import Tensor

    from calibrant.calibrators import Calibrator
    from calibrant.predictions import Predictions

_MOST_NAMED = 5  # classes whose estimated share is printed


@reads
def apply(
    calibrator: Annotated[Path, typer.Argument(help="Calibrator saved by `calibrant fit`.")],
    file: Annotated[Path, typer.Argument(help="Predictions; labels aren't needed.")],
    reading: Reading,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the calibrated predictions to this file.")],
    label_shift: Annotated[
        str | None,
        typer.Option(
            "--label-shift",
            metavar="METHOD",
            help="em: estimate new class frequencies without labels and correct for them.",
        ),
    ] = None,
    prior: Annotated[
        str | None, typer.Option(metavar="SHARES", help="Known class frequencies of FILE, e.g. 0.98,0.02.")
    ] = None,
    unknown_groups: Annotated[
        Literal["error", "pooled"] | None,
        typer.Option(
            metavar="WHAT", help="Groups not seen in the fit: error, or pooled (calibrator of all)."
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Keep text that a spreadsheet would run as a formula.")
    ] = False,
    force: Force = False,
) -> None:
    """Calibrate the probabilities in FILE with a saved calibrator.

    Examples:
        calibrant apply calibrator.safetensors new.npz -o calibrated.npz
        calibrant apply calibrator.safetensors new.csv -o calibrated.csv --prior 0.98,0.02
    """
    reading = reading.of_scores()
    check_inputs(calibrator, file)
    check_output(out, option="--out", inputs=[calibrator, file])
    _refuse_two_corrections(label_shift, prior)

    from calibrant.calibrators import Multicalibrator
    from calibrant.calibrators.cohorts.by_group import GroupCalibrator
    from calibrant.calibrators.files import load_either
    from calibrant.evaluation.applying import apply as apply_to
    from calibrant.evaluation.applying import pooled
    from calibrant.predictions.checks import one_sample_allowed
    from calibrant.predictions.dense import holds_images
    from calibrant.predictions.detections import detection_results
    from calibrant.predictions.save_like import save_in_form_of

    if (said := apply_to_boxes(calibrator, file, reading, out, force=force)) is not None:
        typer.echo(said)
        return
    with progress(f"reading {file.name}") as tell, one_sample_allowed():
        try:
            loaded = load_either(calibrator)
        except InputError as error:
            _refuse_wrong_order(calibrator, file, error)
            raise
        fitted = pooled(loaded, str(calibrator))
        if holds_images(file):
            tell(f"applying {fitted.name}", 0.5)
            plain = fitted is loaded and not (label_shift or prior)
            typer.echo(apply_to_images(fitted if plain else None, file, out, force=force))
            return
        event = fitted.kind_ == "binary"
        _refuse_unused(reading, by_group=isinstance(loaded, GroupCalibrator | Multicalibrator))
        detected = None if is_pipe(file) else detection_results(file, annotations=reading.annotations)
        given, reading = (
            _loaded(fitted, reading, file) if detected is None else (detected.predictions, reading)
        )
        refuse_calibrated(file, given.notes, force=force)
        if given.top_k is not None and not event:
            tell(f"applying {fitted.name}", 0.5)
            plain = fitted is loaded and not (label_shift or prior)
            typer.echo(apply_to_top_k(fitted if plain else None, calibrator, given, file, out, force=force))
            return
        tell(f"applying {fitted.name}", 0.5)
        if isinstance(loaded, GroupCalibrator):
            loaded.unknown = unknown_groups or loaded.unknown
        change = partial(_for_other_frequencies, stated=prior) if label_shift or prior else None
        found = apply_to(loaded, given, calibrator=str(calibrator), file=str(file), change=change)
        calibrated, notes = found.predictions, found.notes
        tell(f"writing {out.name}", 0.8)
        kept = False

        def write(path: Path) -> None:
            nonlocal kept
            if detected is not None and path.suffix == ".json":
                detected.save(path, calibrated)
            elif is_pipe(file) or given.top_k is not None:
                calibrated.save(path)
            else:
                kept = save_in_form_of(
                    file, path, calibrated, columns=reading.columns, format=reading.format, raw=raw
                )

        write_unless_other(out, write, option="--out", force=force)
    if not kept and any(note.startswith("Not used") for note in given.notes):
        notes = (*notes, f"{out} is not a table like {file}, so the columns that are not used were left out.")
    for note in (*given.notes, *notes):
        typer.echo(f"note: {note}")
    typer.echo(f"calibrated probabilities of {calibrated.num_samples:,} samples: {out}")


def _refuse_unused(reading: Reading, *, by_group: bool) -> None:
    """Refuse options that matter to judge, and those of groups if there is one calibrator for all."""
    reading.refuse("cluster", "iou", remedy="apply doesn't evaluate; leave it out.")
    if not by_group:
        of_groups = ("group_column", "bands", "annotations")
        reading.refuse(*of_groups, remedy="the calibrator is the same for all; leave it out.")


def _loaded(fitted: Calibrator, reading: Reading, file: Path) -> tuple[Predictions, Reading]:
    """New predictions, and how they were read; the column of labels need not be there.

    Without labels nothing in a file says that several may hold at once.
    """
    reading = replace(reading, kind="multilabel") if fitted.kind_ == "multilabel" else reading
    if reading.label_column is None or is_pipe(file):
        return reading.load(file), reading
    try:
        return reading.load(file), reading
    except InputError:
        unlabelled = replace(reading, label_column=None)
        with contextlib.suppress(InputError):
            return unlabelled.load(file), unlabelled
        raise


def _refuse_two_corrections(label_shift: str | None, prior: str | None) -> None:
    if label_shift not in {None, "em"}:
        raise InputError(f"--label-shift must be em; got {label_shift!r}.")
    if label_shift and prior:
        raise InputError("give --label-shift em to estimate the class frequencies or --prior to state them.")


def _for_other_frequencies(
    fitted: Calibrator, probs: Tensor, stated: str | None
) -> tuple[Tensor, Sequence[str]]:
    """Probabilities for the class frequencies that are stated, or else estimated, and what to say."""
    from calibrant.calibrators import adjust_to_prior, estimate_prior
    from calibrant.calibrators.drift.label_shift import source_prior_of

    source = source_prior_of(fitted)
    if stated:
        prior = _numbers(stated)
        adjusted = adjust_to_prior(probs, prior=prior, source_prior=source)
        never = [each for each in (prior if isinstance(prior, list) else [prior, 1 - prior]) if each == 0]
        return adjusted, ["a class of frequency zero gets the probability zero everywhere"] if never else ()
    if not fitted.mends_frequencies:
        better = "platt" if fitted.kind_ == "binary" else "bias-corrected-temperature"
        raise InputError(
            f"--label-shift em needs a calibrator with a shift for every class, and {fitted.name} has none: "
            f"the errors it leaves would be taken for other class frequencies; fit with --method {better}."
        )
    found = estimate_prior(probs, source_prior=source, num_source=fitted.fit_result_.num_samples)
    names = fitted.class_names_ or tuple(f"class {number}" for number in range(len(source)))
    rows = list(zip(names, found.source_prior, found.prior, found.standard_errors, strict=True))
    rows.sort(key=lambda row: abs(row[1] - row[2]), reverse=True)
    notes = [
        f"estimated share of {name}: {new:.3g} ± {error:.2g}, {old:.3g} in the calibration data"
        for name, old, new, error in rows[:_MOST_NAMED]
    ]
    if len(rows) > _MOST_NAMED:
        notes.append(f"these {_MOST_NAMED} of {len(rows)} classes change most")
    if not found.converged:
        notes.append(f"the estimate stopped after {found.steps} steps, {found.gap:.1e} nats below the best")
    return adjust_to_prior(probs, prior=found.prior, source_prior=source), notes


def _numbers(text: str) -> list[float] | float:
    """``0.98,0.02`` as numbers; a single one is the share of class 1."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"--prior must be numbers separated by commas, such as 0.98,0.02; got {text!r}."
        ) from error
    return numbers if len(numbers) > 1 else numbers[0]


def _refuse_wrong_order(calibrator: Path, file: Path, error: InputError) -> None:
    """If the second file is a calibrator and the first is not, say which comes first."""
    from calibrant.calibrators import load_calibrator

    try:
        load_calibrator(file)
    except (InputError, OSError):
        return
    command = shlex.join(["calibrant", "apply", str(file), str(calibrator)])
    raise InputError(
        f"the calibrator comes first, and {calibrator} is not one: {command} --out FILE."
    ) from error
