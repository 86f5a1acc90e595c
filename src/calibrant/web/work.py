"""Compute on uploads in a separate process, which may fail safely."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant._math.errors import InputError
from calibrant.web.forms import EvaluateForm
from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Upload, check_packed, path_of

if TYPE_CHECKING:
    from calibrant.evaluation import Comparison, Evaluation
    from calibrant.evaluation.result import Repair
    from calibrant.predictions import Kind, Predictions

Tell = Callable[[str, float], None]
_AS_IT_COMES = EvaluateForm()
_OF_COLUMNS = re.compile(r"`columns` \((--[a-z, -]+)\)")
_BESIDE = re.compile(r" \(--[^)]*\)")
_OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)(?: [A-Z]+\b)?")
"""Options of the command line: for the names of columns, beside those of arguments, and alone."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Result of an evaluation or a comparison."""

    json: str
    report: str | None = None
    calibrator: bytes | None = None
    calibrator_name: str | None = None
    columns: tuple[str, ...] = ()
    """The columns of the first file, if it is a table."""


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """Calibrated predictions as a file, with notes."""

    name: str
    content: bytes
    notes: tuple[str, ...]


@contextmanager
def said_in_fields(files: Sequence[Upload], wanted: EvaluateForm) -> Generator[None]:
    """Turn errors of readers and evaluations into refusals with fields and columns."""
    try:
        yield
    except InputError as error:
        said = str(error)
        file = next((each for each in files if said.startswith(f"{each.name}: ")), files[0])
        raise Refusal(422, in_fields(said), columns_of(file, wanted)) from error


def evaluated(
    file: Upload, calibration: Upload | None, wanted: EvaluateForm, limits: Limits, tell: Tell
) -> Answer:
    from calibrant.evaluation import evaluate
    from calibrant.reports.commands import with_commands

    tell(f"reading {file.name}", 0.0)
    with said_in_fields([file, *([] if calibration is None else [calibration])], wanted):
        predictions = predictions_of(file, limits, wanted)
        other = None if calibration is None else predictions_of(calibration, limits, wanted)
        judged = evaluate(
            predictions,
            calibration=other,
            calibrators=wanted.method or None,
            progress=lambda words, share: tell(words, 0.8 * share),
            **wanted.judging,
        )
    found = with_commands(
        judged,
        reading=wanted.words("group_column", "cluster"),
        applying=wanted.words("label_column", "group_column", "cluster"),
    )
    if not wanted.report or found.verdict.repair is None:
        return _answered(found, file, wanted, tell)
    tell("fitting the calibrator", 0.8)
    calibrator = _calibrator(found.verdict.repair, other or predictions)
    named = {"calibrator_name": f"{found.verdict.recommended}.safetensors"}
    return _answered(found, file, wanted, tell, calibrator=calibrator, **named)


def compared(files: Sequence[Upload], wanted: EvaluateForm, limits: Limits, tell: Tell) -> Answer:
    from calibrant.evaluation import compare

    models: list[tuple[str, Predictions]] = []
    with said_in_fields(files, wanted):
        for file, name in zip(files, _names(files), strict=True):
            tell(f"reading {file.name}", 0.0)
            models.append((name, predictions_of(file, limits, wanted)))
        found = compare(models, progress=lambda words, share: tell(words, 0.8 * share), **wanted.judging)
    return _answered(found, files[0], wanted, tell)


def _answered(
    found: Evaluation | Comparison, file: Upload, wanted: EvaluateForm, tell: Tell, **calibrator: Any
) -> Answer:
    if not wanted.report:
        return Answer(json=found.to_json())
    from calibrant.reports.html import report_text

    tell("drawing the report", 0.85)
    report, columns = report_text(found), columns_of(file, wanted)
    return Answer(json=found.to_json(), report=report, columns=columns, **calibrator)


def applied(calibrator: Upload, file: Upload, wanted: EvaluateForm, limits: Limits, tell: Tell) -> Repaired:
    """Calibrate new predictions with an uploaded calibrator; a table keeps its columns."""
    from calibrant.calibrators.loading import load_either
    from calibrant.predictions.formats.mark import mark_in
    from calibrant.predictions.save_like import write_in_form_of
    from calibrant.repair.applying import apply_to_samples, pooled

    tell(f"reading {file.name}", 0.0)
    with path_of(calibrator.content) as path:
        try:
            loaded = load_either(path)
        except InputError as error:
            raise InputError(str(error).replace(str(path), calibrator.name)) from error
    with said_in_fields([file], wanted):
        several = "multilabel" if pooled(loaded, calibrator.name).kind_ == "multilabel" else None
        given = predictions_of(file, limits, wanted, kind=several)
        if mark_in(given.notes) is not None:
            raise InputError(f"{file.name} is calibrated already; choose the original predictions.")
        if given.top_k is not None:
            raise InputError(f"{file.name} holds the largest logits only: calibrate it by `calibrant apply`.")
        tell("applying the calibrator", 0.5)
        found, notes = apply_to_samples(loaded, given, calibrator=calibrator.name, file=file.name)
    ending = ending_of(file, wanted)
    others = {".safetensors": ".npz", ".eval": ".jsonl"}  # without a writer, or whose writer needs a name
    new_ending = others.get(ending, ending.removesuffix(".gz"))
    with path_of(file.content) as source, path_of() as out:
        write_in_form_of(source, ending, out, new_ending, found, wanted.columns)
        content = out.read_bytes()
    name = f"{file.name.partition('.')[0]}-calibrated{new_ending}"
    return Repaired(name=name, content=content, notes=(*given.notes, *notes))


def predictions_of(
    file: Upload, limits: Limits, wanted: EvaluateForm = _AS_IT_COMES, *, kind: Kind | None = None
) -> Predictions:
    from calibrant.predictions import load_predictions

    ending = ending_of(file, wanted)
    check_packed(file.content, file.name, limits)
    with path_of(file.content) as path:
        try:
            found = load_predictions(
                path, columns=wanted.columns, kind=kind, format=ending[1:], name=file.name
            )
        except InputError as error:
            raise InputError(str(error).replace(str(path), file.name)) from error
        except MemoryError:
            raise
        except Exception as error:  # whatever else a reader says of bytes that somebody made up
            raise InputError(f"{file.name}: it cannot be read ({type(error).__name__}).") from error
    if not wanted.clusters_are_groups:
        return found
    if found.groups is None:
        raise InputError(f"{file.name}: `cluster` {wanted.cluster} needs groups, and there are none.")
    return found.with_clusters(found.groups)


def ending_of(file: Upload, wanted: EvaluateForm) -> str:
    from calibrant.predictions.formats.roster import FORMATS, known_ending

    name = file.name if wanted.format is None else f"it.{wanted.format.removeprefix('.')}"
    return known_ending(Path(name), [each for each in FORMATS if each != ".npy"])  # which lacks labels


def columns_of(file: Upload, wanted: EvaluateForm) -> tuple[str, ...]:
    """Return a table's column names; none if the file cannot be read as a table."""
    from calibrant.predictions.formats.roster import FORMATS

    with path_of(file.content) as path:
        try:
            return tuple(FORMATS[ending_of(file, wanted)].names(path))
        except InputError:
            return ()


def in_fields(said: str) -> str:
    """Replace command-line options in a sentence by field names.

    Example:
        >>> in_fields("Say so by `columns` (--label-column), or --percent; or give `positive_class` (--x).")
        'Say so by `label_column`, or `percent`; or give `positive_class`.'
    """
    said = _OF_COLUMNS.sub(r"\1", said)
    return _OPTION.sub(lambda found: f"`{found[1].replace('-', '_')}`", _BESIDE.sub("", said))


def _calibrator(repair: Repair, predictions: Predictions) -> bytes:
    from calibrant.calibrators import Calibrator
    from calibrant.calibrators.file_format import SINGLE_KEY, file_bytes
    from calibrant.repair.fitting import fit

    fitted = fit(predictions, method=repair.method, every_row=repair.all_rows, force=True)
    if not isinstance(fitted, Calibrator):
        raise InputError(f"{repair.method} must be a calibrator for all samples.")
    return file_bytes(SINGLE_KEY, asdict(fitted.header()), dict(fitted.named_buffers()))


def _names(files: Sequence[Upload]) -> list[str]:
    """Return file names without endings if these are distinct, else with a number."""
    stems = [file.name.partition(".")[0] or file.name for file in files]
    if len(set(stems)) == len(stems):
        return stems
    return [f"{stem} ({number})" for number, stem in enumerate(stems, 1)]


def refused(error: BaseException) -> Refusal | None:
    """Return the refusal for an error, or None for an internal fault."""
    from calibrant._math.errors import ConvergenceError, NotFittedError
    from calibrant._math.machine import is_shortage

    if isinstance(error, Refusal):
        return error
    if is_shortage(error):
        return Refusal(413, "this needs more memory than the server gives to one request.")
    if isinstance(error, InputError | NotFittedError | ConvergenceError):
        return Refusal(422, str(error))
    return None
