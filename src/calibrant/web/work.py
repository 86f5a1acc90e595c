"""What is computed from uploads, in a process of its own, which may fail without harm to others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant._math.errors import InputError
from calibrant.web.archives import check_packed
from calibrant.web.in_memory import path_of
from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Upload
from calibrant.web.wanted import Wanted

if TYPE_CHECKING:
    from calibrant.evaluation import Evaluation
    from calibrant.predictions import Predictions

Tell = Callable[[str, float], None]
_AS_IT_COMES = Wanted()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an evaluation or a comparison gives."""

    json: str
    report: str | None = None
    calibrator: bytes | None = None
    calibrator_name: str | None = None


def evaluated(file: Upload, calibration: Upload | None, wanted: Wanted, limits: Limits, tell: Tell) -> Answer:
    """Judge the predictions in one file; calibrators are fitted on those of another where there is one."""
    from calibrant.evaluation import evaluate
    from calibrant.reports.commands import with_commands

    tell(f"reading {file.name}", 0.0)
    predictions = predictions_of(file, limits, wanted)
    other = None if calibration is None else predictions_of(calibration, limits, wanted)
    found = with_commands(
        evaluate(
            predictions,
            calibration=other,
            calibrators=wanted.method or None,
            progress=lambda words, share: tell(words, 0.8 * share),
            **wanted.judging,
        ),
        reading=wanted.words("group_column", "cluster"),
        applying=wanted.words("label_column", "group_column", "cluster"),
    )
    if not wanted.report:
        return Answer(json=found.to_json())
    tell("fitting the calibrator", 0.8)
    calibrator = _calibrator(found, other or predictions)
    tell("drawing the report", 0.85)
    return Answer(
        json=found.to_json(),
        report=_report(found),
        calibrator=calibrator,
        calibrator_name=None if calibrator is None else f"{found.verdict.recommended}.safetensors",
    )


def compared(files: Sequence[Upload], wanted: Wanted, limits: Limits, tell: Tell) -> Answer:
    """Put the predictions of several models side by side."""
    from calibrant.evaluation import compare

    models: list[tuple[str, Predictions]] = []
    for file, name in zip(files, _names(files), strict=True):
        tell(f"reading {file.name}", 0.0)
        models.append((name, predictions_of(file, limits, wanted)))
    found = compare(models, progress=lambda words, share: tell(words, 0.8 * share), **wanted.judging)
    if not wanted.report:
        return Answer(json=found.to_json())
    tell("drawing the report", 0.85)
    return Answer(json=found.to_json(), report=_report(found))


def predictions_of(file: Upload, limits: Limits, wanted: Wanted = _AS_IT_COMES) -> Predictions:
    """The predictions in a file that was sent.

    Raises:
        Refusal: If it is too large when unpacked.
        InputError: If it holds none.
    """
    from calibrant.predictions import load_predictions
    from calibrant.predictions.formats.roster import FORMATS, known_ending

    name = file.name if wanted.format is None else f"it.{wanted.format.removeprefix('.')}"
    ending = known_ending(Path(name), [each for each in FORMATS if each != ".npy"])  # which lacks labels
    check_packed(file.content, file.name, limits)
    with path_of(file.content) as path:
        try:
            found = load_predictions(path, columns=wanted.columns, format=ending[1:], name=file.name)
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


def _calibrator(found: Evaluation, predictions: Predictions) -> bytes | None:
    """The file of the calibrator that is recommended, fitted as the recommended command does."""
    from calibrant.calibrators import build
    from calibrant.calibrators.file_format import SINGLE_KEY, file_bytes
    from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
    from calibrant.predictions.repair_form import to_repair

    repair = found.verdict.repair
    if repair is None:
        return None
    rows = to_repair(predictions if repair.all_rows else predictions.calibration)
    fitted = fit_quietly(build(repair.method), Labelled.of(rows))
    fitted.class_names_ = rows.class_names
    return file_bytes(SINGLE_KEY, asdict(fitted.header()), dict(fitted.named_buffers()))


def _report(found: Any) -> str:
    from calibrant.reports.html import report_text

    return report_text(found)


def _names(files: Sequence[Upload]) -> list[str]:
    """File names without their endings where these differ, else with a number."""
    stems = [file.name.partition(".")[0] or file.name for file in files]
    if len(set(stems)) == len(stems):
        return stems
    return [f"{stem} ({number})" for number, stem in enumerate(stems, 1)]


def refused(error: BaseException) -> Refusal | None:
    """How an error is answered; None: it is a fault of ours."""
    from calibrant._math.errors import ConvergenceError, NotFittedError
    from calibrant._math.memory import is_shortage

    if isinstance(error, Refusal):
        return error
    if is_shortage(error):
        return Refusal(413, "this needs more memory than the server gives to one request.")
    if isinstance(error, InputError | NotFittedError | ConvergenceError):
        return Refusal(422, str(error))
    return None
