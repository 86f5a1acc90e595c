"""The form of predictions that calibrators use, and the way back."""

from __future__ import annotations

import torch

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant.predictions.formats.mark import Mark, mark_in
from calibrant.predictions.table import Predictions


def to_repair(predictions: Predictions, event: int = 1) -> Predictions:
    """Return input for a calibrator of an event: log-odds of class 1 for two columns, or of the confidence.

    Other predictions are unchanged, unless the event is class 0 (see :func:`event_column`).
    """
    if event == 0:
        return predictions.as_binary("0" if predictions.class_names is None else predictions.class_names[0])
    two_columns = predictions.kind == "multiclass" and predictions.num_classes == 2
    return predictions.as_binary() if two_columns or predictions.kind == "top_label" else predictions


def plain_event(names: tuple[str, ...] | None, column: int) -> tuple[tuple[str, ...] | None, int]:
    """Return two class names and the event's column; classes called 1 and 0 are swapped, without names."""
    return (None, 0) if names == ("1", "0") else (names, column)


def event_column(predictions: Predictions, known: tuple[str, ...] | None, column: int = 1) -> int:
    """Return a calibrator's event: 0 if the predictions have it as their class 0, else 1.

    Names decide if both have them (the calibrator's are ``known``), otherwise the columns of the events.

    Example:
        >>> p = Predictions(logits=[[2.0, 0.0], [0.0, 1.0]])
        >>> event_column(p, ("1", "0")), event_column(p, ("ham", "spam")), event_column(p, None)
        (0, 1, 1)
        >>> event_column(p, ("spam", "ham"), 0)
        0
    """
    if predictions.kind not in {"binary", "multiclass"}:
        return 1
    names, own = plain_event(predictions.class_names, predictions.event_column)
    known, column = plain_event(known, column)
    if names is None or known is None:
        return 1 if own == column else 0
    return 0 if known == names[::-1] and len({*names}) == 2 else 1


def repaired(predictions: Predictions, probs: ArrayLike, event: int = 1) -> Predictions:
    """Return the original predictions with a calibrator's probabilities for the form of :func:`to_repair`."""
    given = as_float_tensor(probs, name="probs")
    if event == 0:
        given = 1 - given
    if predictions.kind == "multiclass" and given.ndim == 1:
        given = torch.stack([1 - given, given], dim=1)
    return predictions.replace_probs(given)


def marked(predictions: Predictions, method: str, *, seen: bool = False) -> Predictions:
    """Mark predictions as repaired, also in their files; ``seen`` if the calibrator was fitted on them."""
    before = mark_in(predictions.notes)
    sha256 = "" if predictions.source is None else predictions.source.sha256
    mark = Mark.of(method, sha256, seen=seen, before=before)
    others = [note for note in predictions.notes if before is None or note != before.note]
    return predictions._with(_notes=(mark.note, *others))  # pyright: ignore[reportPrivateUsage]
