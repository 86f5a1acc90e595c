"""Apply a fitted calibrator to predictions: in memory, in a file, images or boxes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.errors import InputError, without_warnings
from calibrant._math.files import write_unless_other
from calibrant._math.text_form import Note, kind_of, of_kind, plural, suggesting
from calibrant.calibrators import (
    Calibrator,
    DetectionCalibration,
    GroupCalibrator,
    Multicalibrator,
    VennAbersCalibration,
    adjust_to_prior,
    estimate_prior,
    load_detection_calibration,
    shift_of,
)
from calibrant.calibrators.drift import source_prior_of
from calibrant.calibrators.file_format import DETECTION_KEY, holds
from calibrant.calibrators.fitting.data import fingerprint
from calibrant.calibrators.inputs import refuse_other_names
from calibrant.calibrators.loading import load_either
from calibrant.evaluation.arguments import check_predictions
from calibrant.predictions import ColumnNames, Predictions, load_predictions
from calibrant.predictions.checks import one_sample_allowed
from calibrant.predictions.dense import holds_images, marks_in, repair_images
from calibrant.predictions.detections import COVARIATES, DetectionResults, boxes_of, detection_results
from calibrant.predictions.formats.mark import Mark, mark_in
from calibrant.predictions.labels import RIGHT_OR_WRONG
from calibrant.predictions.save_like import save_in_form_of
from calibrant.predictions.to_event import event_column, marked, plain_event, repaired, to_repair
from calibrant.predictions.top_k import at_temperature, has_row_temperature

_MOST_NAMED = 5  # classes
_APPROXIMATE = (
    "note: the total probability of the classes that are not listed is approximate then; it changes no "
    "confidence by more than"
)
OfSamples: TypeAlias = Calibrator | GroupCalibrator | Multicalibrator
Fitted: TypeAlias = OfSamples | DetectionCalibration
Change: TypeAlias = Callable[[Calibrator, Tensor], tuple[Tensor, Sequence[str]]]


@suggesting(unnamed="a calibrator, predictions and a file to write; got {}.")
@one_sample_allowed()
def apply(
    calibrator: str | os.PathLike[str] | Fitted,
    predictions: str | os.PathLike[str] | Predictions | DetectionResults,
    out: str | os.PathLike[str] | None = None,
    *,
    label_shift: Literal["em"] | None = None,
    prior: Sequence[float] | float | None = None,
    unknown_groups: Literal["error", "pooled"] | None = None,
    annotations: str | os.PathLike[str] | None = None,
    form_of: str | os.PathLike[str] | None = None,
    columns: ColumnNames | None = None,
    format: str | None = None,  # noqa: A002
    raw: bool = False,
    intervals: bool = False,
    force: bool = False,
    say: Callable[[str], None] | None = None,
) -> Predictions | None:
    """Calibrate predictions with a fitted calibrator, like ``calibrant apply``.

    Args:
        calibrator: A fitted calibrator of all samples, by groups, or of boxes; or its file.
        predictions: Scores ``(N,)`` or ``(N, C)`` of the kind that the calibrator was fitted on; labels are
            not needed. A file, a folder of images of scores, or predictions in memory.
        out: Where to write them: a file, or for images a folder that is not there yet. A table keeps its
            columns where both are tables of the same kind; COCO's results keep their fields.
        label_shift: ``"em"`` estimates the class frequencies of these samples without labels, and corrects
            for them.
        prior: Known class frequencies ``(C,)``, or that of class 1, to correct for.
        unknown_groups: Treatment of groups that were not in the fit: ``"error"``, or ``"pooled"`` for the
            calibrator of all; by default the fit's choice.
        annotations: COCO's, for boxes: the sizes of images and the names of classes.
        form_of: The file that ``predictions`` were read from, whose columns ``out`` keeps.
        columns: Names of that file's columns, or the given file's, that differ from calibrant's.
        format: The ending of its format, such as ``"csv"``, if its name has another.
        raw: Keep text that a spreadsheet would run as a formula.
        intervals: Also write columns ``lower`` and ``upper``, the two probabilities of Venn-Abers
            calibration (of several classes ``lower_NAME`` and ``upper_NAME``), to a table.
        force: Also calibrate predictions that are calibrated already, and replace a file of other content.
        say: Function that receives notes and the names of written files, in sentences.

    Returns:
        The predictions with probabilities in ``[0, 1]``, marked as calibrated; None of images, which are only
        written.

    Raises:
        InputError: If the predictions are of another form, or of other classes, than those of the fit, are
            calibrated already, ``out`` has other content, or the calibrator has no intervals to write.
        OSError: If a file cannot be read or written.

    Example:
        >>> from calibrant.calibrators import TemperatureScaling
        >>> calibrator = TemperatureScaling().fit([4.0] * 10 + [-4.0] * 10, [1] * 9 + [0] + [0] * 9 + [1])
        >>> [round(p, 3) for p in apply(calibrator, Predictions(logits=[4.0, -4.0])).probs.tolist()]
        [0.9, 0.1]
    """
    _refuse_others(calibrator, predictions)
    if label_shift not in {None, "em"}:
        raise InputError(f"`label_shift` must be em; got {label_shift!r}.")
    if label_shift is not None and prior is not None:
        raise InputError("give `label_shift` em to estimate the class frequencies or `prior` to state them.")
    say = say or (lambda _said: None)
    by_file = isinstance(calibrator, (str, os.PathLike))
    loaded, called = (load_fitted(calibrator), str(calibrator)) if by_file else (calibrator, "`calibrator`")
    fitted = None if isinstance(loaded, DetectionCalibration) else pooled(loaded, called)
    plain = fitted if fitted is loaded and label_shift is None and prior is None else None
    place, file = (None if path is None else Path(path) for path in (out, form_of))
    if isinstance(predictions, (str, os.PathLike)):
        file = Path(predictions)
        if fitted is not None and holds_images(file):
            _apply_to_images(plain, file, place, force=force, say=say)
            return None
        predictions = _opened(file, fitted, annotations, columns, format)
    detected = predictions if isinstance(predictions, DetectionResults) else None
    given = predictions.predictions if isinstance(predictions, DetectionResults) else predictions
    source = "`predictions`" if given.source is None else given.source.path or given.source.name
    name = source if file is None or given.source is not None else str(file)
    refuse_calibrated(name, given.notes, force=force)
    changed = label_shift is not None or prior is not None
    added = _intervals(None if changed else loaded, called, given, file, place) if intervals else {}
    if isinstance(loaded, DetectionCalibration):
        calibrated = _of_boxes(loaded, called, detected, name, annotations, place)
        said = [f"Calibrated scores of {plural(calibrated.num_samples, 'detection')}: {out}"]
    elif given.top_k is not None and pooled(loaded, called).kind_ != "binary":
        calibrated, said = _of_top_k(plain, called, given, name, place)
    else:
        if isinstance(loaded, GroupCalibrator) and unknown_groups is not None:
            loaded = GroupCalibrator(
                loaded.pooled, loaded.by_group, borrowed=loaded.borrowed, unknown=unknown_groups
            )
        change = partial(_for_other_frequencies, prior=prior) if label_shift or prior is not None else None
        calibrated, notes = apply_to_samples(loaded, given, calibrator=called, file=name, change=change)
        said: list[str] = [Note(f"note: {note}", "note") for note in (*given.notes, *notes)]
        said.append(f"Calibrated probabilities of {calibrated.num_samples:,} samples: {out}")
    if place is None:
        said = [*of_kind(said, "note")]
    else:
        like = None if given.top_k is not None else file
        form = {"columns": columns, "format": format, "raw": raw, "added": added}
        if _lost_columns(place, detected, calibrated, like, form, force=force):
            lost = f"{out} is not a table like {name}, so the columns that are not used were left out."
            said.insert(-1, f"note: {lost}")
    for line in said:
        say(line)
    return calibrated


def _intervals(
    loaded: Fitted | None, called: str, given: Predictions, file: Path | None, out: Path | None
) -> dict[str, list[float]]:
    if file is None or out is None:
        raise InputError(
            "intervals need a table and `out`; in Python use the calibrator's `predict_interval`."
        )
    if not isinstance(loaded, VennAbersCalibration):
        raise InputError(
            f"{called} has no intervals: `intervals` (--intervals) needs one calibrator fitted with --method "
            "venn-abers, without --label-shift and --prior."
        )
    event = event_of(loaded, given)
    scores = (to_repair(given, event) if loaded.kind_ == "binary" else given).scores
    lower, upper = loaded.predict_interval(scores)
    if event == 0:
        lower, upper = 1 - upper, 1 - lower
    ends = [""] if lower.ndim == 1 else [f"_{name}" for name in given.class_names or range(lower.shape[1])]
    return {
        f"{side}{end}": column.tolist()
        for side, bounds in (("lower", lower), ("upper", upper))
        for end, column in zip(ends, bounds.reshape(len(bounds), -1).T, strict=True)
    }


def _refuse_others(calibrator: object, predictions: object) -> None:
    if not isinstance(calibrator, (str, os.PathLike, *get_args(Fitted))):
        raise TypeError(
            "`calibrator` must be a fitted calibrator or a file of one, such as "
            f'`evaluation.arm("temperature").calibrator`; got {kind_of(calibrator)}; it comes before '
            "the predictions, as in `apply(calibrator, predictions)`."
        )
    if not isinstance(predictions, (str, os.PathLike, DetectionResults)):
        check_predictions(predictions, "predictions", "wrap arrays as `calibrant.Predictions(probs=probs)`.")


def _lost_columns(
    out: Path,
    detected: DetectionResults | None,
    calibrated: Predictions,
    like: Path | None,
    form: dict[str, Any],
    *,
    force: bool,
) -> bool:
    """Write calibrated predictions, in the form of any source; return True if columns were lost."""
    kept = False

    def write(path: Path) -> None:
        nonlocal kept
        if detected is not None and path.suffix == ".json":
            detected.save(path, calibrated)
        elif like is None:
            calibrated.save(path)
        else:
            kept = save_in_form_of(like, path, calibrated, **form)

    write_unless_other(out, write, option="--out", force=force)
    return not kept and bool(of_kind(calibrated.notes, "unused"))


def load_fitted(path: str | os.PathLike[str]) -> Fitted:
    """Load a calibrator of any kind."""
    return load_detection_calibration(path) if holds(path, DETECTION_KEY) else load_either(path)


def _opened(
    file: Path,
    fitted: Calibrator | None,
    annotations: str | os.PathLike[str] | None,
    columns: ColumnNames | None,
    format: str | None,  # noqa: A002
) -> Predictions | DetectionResults:
    of_classes = None if annotations is None or fitted is None else Path(annotations)
    if (detected := detection_results(file, annotations=of_classes)) is not None:
        return detected
    several = "multilabel" if fitted is not None and fitted.kind_ == "multilabel" else None
    named = None if fitted is None else event_name(fitted)
    return load_predictions(file, kind=several, columns=columns, positive_class=named, format=format)


def event_name(fitted: Calibrator) -> str | None:
    """Return the word for class 1 of a calibrator of an event, if it has one."""
    return fitted.class_names_[1] if fitted.class_names_ and fitted.kind_ == "binary" else None


def refuse_calibrated(name: str | Path, notes: Sequence[str], *, force: bool) -> None:
    """Refuse calibrated predictions, since a calibrator expects those of the model itself."""
    if (mark := mark_in(notes)) is not None and not force:
        raise InputError(
            f"{name} is calibrated already (by {mark.method}); use the original predictions, or `force=True` "
            "to calibrate them again."
        )


def event_of(fitted: Calibrator, predictions: Predictions) -> int:
    """Return the calibrator's event among two classes."""
    if fitted.kind_ != "binary":
        return 1
    return event_column(predictions, fitted.class_names_, fitted.event_column_)


def apply_to_samples(
    loaded: OfSamples, given: Predictions, *, calibrator: str, file: str, change: Change | None = None
) -> tuple[Predictions, tuple[str, ...]]:
    """Calibrate and mark predictions, which need no labels; return them with notes.

    ``calibrator`` and ``file`` are names for errors; ``change`` alters the new probabilities, with notes.
    """
    fitted = pooled(loaded, calibrator)
    event = event_of(fitted, given)
    predictions = to_repair(given, event) if fitted.kind_ == "binary" else given
    _check_fit(calibrator, fitted, file, given, predictions)
    groups: dict[str, Any] = {}
    if isinstance(loaded, GroupCalibrator | Multicalibrator):
        groups["groups"] = predictions.groups
        if predictions.groups is None:
            raise InputError(
                f"{calibrator} has a calibrator for each group; {file} must have `groups`, one name per "
                "sample; --group-column says which column holds them, and --annotations what detected "
                "classes are called."
            )
    with without_warnings():  # about logits like probabilities, which the predictions note
        probs = loaded.predict_proba(predictions.scores, **groups)
    seen: tuple[str, ...] = ()
    labels, result = predictions.labels, fitted.fit_result_
    if labels is not None and len(labels) == result.num_samples:
        sha256 = fingerprint(predictions.scores, labels, predictions.weights)
        said = "The calibrator was fitted on these very samples, so it looks better than on new ones"
        if sha256 == result.data_sha256:
            seen = (f"{said}; apply it to new samples, or evaluate the original file.",)
    if change is None:
        notes = notes_on_shift(fitted, predictions.scores)
    else:
        probs, notes = change(fitted, probs)
    return marked(repaired(given, probs, event), fitted.name, seen=bool(seen)), (*seen, *notes)


def pooled(loaded: OfSamples, path: str) -> Calibrator:
    """Return the calibrator of all samples."""
    if isinstance(loaded, GroupCalibrator):
        return loaded.pooled
    if not isinstance(loaded, Multicalibrator):
        return loaded
    if loaded.start is None:
        raise InputError(f"{path} holds corrections with no calibrator before them; apply it in Python.")
    return loaded.start


def _check_fit(
    calibrator: str, fitted: Calibrator, file: str, given: Predictions, predictions: Predictions
) -> None:
    of_confidences = fitted.kind_ == "binary" and fitted.class_names_ == RIGHT_OR_WRONG
    if of_confidences and given.kind != "top_label":
        raise InputError(
            f"{calibrator} was fitted on confidences; {file} holds {given.kind} predictions: fit one on such."
        )
    if given.kind == "top_label" and not of_confidences:
        raise InputError(
            f"{file} holds confidences only, and {calibrator} was fitted on {fitted.kind_} predictions; fit "
            "one on a file of `confidence` with `correct`."
        )
    _refuse_other_classes(predictions.num_classes, fitted, calibrator, file)
    if predictions.kind != fitted.kind_:
        raise InputError(
            f"{file} holds {predictions.kind} predictions, {calibrator} was fitted on {fitted.kind_} "
            "ones; name predictions in the form that it was fitted on."
        )
    known = fitted.class_names_
    if fitted.kind_ == "binary" and None in {plain_event(each, 1)[0] for each in (known, given.class_names)}:
        return  # the column of the event is known
    refuse_other_names(file, predictions.class_names, calibrator, known)


def _refuse_other_classes(number: int | None, fitted: Calibrator, calibrator: str, file: str) -> None:
    if number not in {None, fitted.num_classes_}:
        raise InputError(
            f"{file} has {number} classes, but {calibrator} was fitted on {fitted.num_classes_}; use "
            "predictions of the same model."
        )


def notes_on_shift(fitted: Calibrator, scores: Tensor) -> Sequence[str]:
    """Notes if the file differs much from the data of the fit."""
    if fitted.fit_result_.profile is None:  # for very many classes, or from a file of an older version
        return ("The calibrator has no record of the data it was fitted on, so drift can't be tested.",)
    return shift_of(fitted, scores).sentences


def _for_other_frequencies(
    fitted: Calibrator, probs: Tensor, prior: Sequence[float] | float | None
) -> tuple[Tensor, Sequence[str]]:
    """Adapt probabilities to given or estimated class frequencies; return them with notes."""
    source = source_prior_of(fitted)
    if prior is not None:
        adjusted = adjust_to_prior(probs, prior=prior, source_prior=source)
        shares = [prior, 1 - prior] if isinstance(prior, float | int) else prior
        never = any(each == 0 for each in shares)
        return adjusted, ["a class of frequency zero gets the probability zero everywhere"] if never else ()
    if not fitted.mends_frequencies:
        better = "platt" if fitted.kind_ == "binary" else "bias-corrected-temperature"
        raise InputError(
            f"`label_shift` em needs a calibrator with a shift for every class, and {fitted.name} has none: "
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


def _apply_to_images(
    fitted: Calibrator | None, folder: Path, out: Path | None, *, force: bool, say: Callable[[str], None]
) -> None:
    if fitted is None:
        raise InputError(
            f"{folder} holds images, to which one calibrator for all is applied, without --label-shift and "
            "--prior."
        )
    if fitted.kind_ == "multilabel":
        raise InputError(
            f"{folder} holds images of scores of several classes, and the calibrator was fitted on "
            "multilabel predictions; fit one on such images."
        )
    if out is None:
        raise InputError("`out` must name a folder, to which images are written one by one; got None.")
    marks = marks_in(folder)
    refuse_calibrated(folder, marks, force=force)
    mark = Mark.of(fitted.name, "", before=mark_in(marks)).text

    def repair(rows: NDArray[Any], space: str) -> NDArray[Any]:
        given: dict[str, Any] = {space: rows}
        predictions = Predictions(**given)
        event = event_of(fitted, predictions)
        form = to_repair(predictions, event) if fitted.kind_ == "binary" else predictions
        return repaired(predictions, fitted.predict_proba(form.scores), event).probs.numpy()

    count = repair_images(folder, out, repair, num_classes=fitted.num_classes_, mark=mark)
    say(f"Calibrated probabilities of {plural(count, 'image')}: {out}")


def _of_top_k(
    fitted: Calibrator | None, calibrator: str, given: Predictions, name: str, out: Path | None
) -> tuple[Predictions, list[str]]:
    """Divide each sample's largest logits by a temperature; return them with notes."""
    if fitted is None or given.top_k is None or not has_row_temperature(fitted.text, given):
        raise InputError(
            f"{name} holds only the largest logits of each sample, to which a temperature is applied, or a "
            "calibrator that was fitted on such a file; it must also hold `num_classes`."
        )
    _refuse_other_classes(given.top_k.num_classes, fitted, calibrator, name)
    temperature = float(fitted.get_buffer("temperature"))
    low, high = given.top_k.confidence_bounds(temperature)
    return marked(at_temperature(given, temperature), fitted.name), [
        f"Logits of {given.num_samples:,} samples, divided by {temperature:.4g}: {out}",
        Note(f"{_APPROXIMATE} {float((high - low).max()):.2g}", "note"),
    ]


def _of_boxes(
    loaded: DetectionCalibration,
    calibrator: str,
    found: DetectionResults | None,
    name: str,
    annotations: str | os.PathLike[str] | None,
    out: Path | None,
) -> Predictions:
    if len(loaded.covariates) != loaded.num_covariates or not set(loaded.covariates) <= set(COVARIATES):
        names = ", ".join(loaded.covariates) or "no names"
        raise InputError(
            f"{calibrator} must name its covariates, each among {', '.join(COVARIATES)}; got {names} for "
            f"{loaded.num_covariates}: apply it in Python by `predict_proba`, or fit it with these names."
        )
    if found is None:
        raise InputError(f"{calibrator} is for detections; {name} is not a COCO results file (.json).")
    if annotations is None:
        raise InputError(
            f"{calibrator} needs the places of boxes: "
            "`annotations` (--annotations) must name the images and their sizes."
        )
    if out is not None and out.suffix != ".json":
        raise InputError(f"--out must end in .json, as {name} does; got {out}.")
    places = [COVARIATES.index(covariate) for covariate in loaded.covariates]
    boxes = boxes_of(found.entries, Path(annotations))[:, places]
    scores = loaded.predict_proba(found.predictions.confidence.numpy(), boxes)
    return marked(found.predictions.replace_probs(scores), f"detection-{loaded.method}")
