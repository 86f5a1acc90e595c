"""A fitted calibrator applied to predictions, however both came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from calibrant._math.errors import InputError
from calibrant.calibrators import Calibrator, Multicalibrator, shift_of
from calibrant.calibrators.cohorts.by_group import GroupCalibrator
from calibrant.calibrators.fitting.data import fingerprint
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import marked, repaired, to_repair
from calibrant.predictions.two_classes import RIGHT_OR_WRONG

_MOST_NAMED = 5  # classes
Fitted: TypeAlias = Calibrator | GroupCalibrator | Multicalibrator
Change: TypeAlias = Callable[[Calibrator, Tensor], tuple[Tensor, Sequence[str]]]


@dataclass(frozen=True)
class Applied:
    """Calibrated predictions, and what to say of them."""

    predictions: Predictions
    notes: tuple[str, ...]


def apply(
    loaded: Fitted, given: Predictions, *, calibrator: str, file: str, change: Change | None = None
) -> Applied:
    """Calibrate predictions, which need no labels, and mark them so.

    Args:
        loaded: A fitted calibrator, for all samples or by groups.
        given: The predictions.
        calibrator: What the calibrator is called in errors.
        file: What the predictions are called.
        change: What is done to the probabilities then, with notes on it.

    Raises:
        InputError: If they are of another form, or of other classes, than those of the fit.
    """
    fitted = pooled(loaded, calibrator)
    predictions = to_repair(given) if fitted.kind_ == "binary" else given
    _check_fit(calibrator, fitted, file, given, predictions)
    if isinstance(loaded, GroupCalibrator | Multicalibrator):
        groups = _groups_of(predictions, calibrator, file)
        probs = loaded.predict_proba(predictions.scores, groups=groups)
    else:
        probs = loaded.predict_proba(predictions.scores)
    seen = _notes_on_seen(fitted, predictions)
    if change is None:
        notes = notes_on_shift(fitted, predictions.scores)
    else:
        probs, notes = change(fitted, probs)
    return Applied(marked(repaired(given, probs), fitted.name, seen=bool(seen)), (*seen, *notes))


def pooled(loaded: Fitted, path: str) -> Calibrator:
    """The calibrator of all samples, which says what it was fitted on."""
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
    """Refuse predictions of another form, or of other classes, than the calibrator's."""
    _refuse_confidences(calibrator, fitted, file, given)
    if predictions.num_classes not in {None, fitted.num_classes_}:
        raise InputError(
            f"{file} has {predictions.num_classes} classes, {calibrator} was fitted on "
            f"{fitted.num_classes_}; name predictions of the same model."
        )
    if predictions.kind != fitted.kind_:
        raise InputError(
            f"{file} holds {predictions.kind} predictions, {calibrator} was fitted on {fitted.kind_} "
            "ones; name predictions in the form that it was fitted on."
        )
    known, named = fitted.class_names_, predictions.class_names
    if known is not None and named is not None and known != named:
        raise InputError(
            f"{file} names its classes {_listed(named)}, {calibrator} was fitted on {_listed(known)}; "
            "bring the columns into that order."
        )


def _groups_of(predictions: Predictions, calibrator: str, file: str) -> Sequence[str]:
    if predictions.groups is None:
        raise InputError(
            f"{calibrator} has a calibrator for each group; {file} must have `groups`, one name per sample; "
            "--group-column says which column holds them, and --annotations what detected classes are "
            "called."
        )
    return predictions.groups


def _refuse_confidences(calibrator: str, fitted: Calibrator, file: str, given: Predictions) -> None:
    """Refuse a calibrator of confidences for probabilities, and conversely."""
    of_confidences = fitted.kind_ == "binary" and fitted.class_names_ == RIGHT_OR_WRONG
    if (given.kind == "top_label") == of_confidences:
        return
    if of_confidences:
        raise InputError(
            f"{calibrator} was fitted on confidences; {file} holds {given.kind} predictions: fit one on such."
        )
    raise InputError(
        f"{file} holds confidences only, and {calibrator} was fitted on {fitted.kind_} predictions; fit one "
        "on a file of `confidence` with `correct`."
    )


def _listed(names: Sequence[str | int]) -> str:
    shown = ", ".join(str(name) for name in names[:_MOST_NAMED])
    return shown + (", …" if len(names) > _MOST_NAMED else "")


def _notes_on_seen(fitted: Calibrator, predictions: Predictions) -> Sequence[str]:
    """Note that these samples fitted the calibrator."""
    labels = predictions.labels
    if labels is None or len(labels) != fitted.fit_result_.num_samples:
        return ()
    if fingerprint(predictions.scores, labels, predictions.weights) != fitted.fit_result_.data_sha256:
        return ()
    said = "The calibrator was fitted on these very samples, so on them it looks better than on new ones"
    return (f"{said}; evaluate the file as it was, or apply it to samples that it has not seen.",)


def notes_on_shift(fitted: Calibrator, scores: Tensor) -> Sequence[str]:
    """What to say if the file differs much from the data of the fit."""
    if fitted.fit_result_.profile is None:  # of very many classes, or from a file of an older version
        return (
            "The calibrator does not tell what it was fitted on, so whether these data differ is not known.",
        )
    return shift_of(fitted, scores).sentences
