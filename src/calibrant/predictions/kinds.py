"""Check the scores of each kind of predictions and the fields next to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from torch import Tensor

from calibrant._math.arrays import ArrayLike, frame_names
from calibrant._math.checks import Checked, check_label_range, check_logits, check_probs, check_weights
from calibrant._math.errors import InputError
from calibrant.predictions import checks
from calibrant.predictions import labels as labels_of
from calibrant.predictions.checks import Kind
from calibrant.predictions.oddities import ONE_HOT, are_one_hot, oddities
from calibrant.predictions.stores import CheckedFile, FileScores, HeldScores, ScoreFile

Space: TypeAlias = Literal["logits", "probs", "confidence"]
ClassSpace: TypeAlias = Literal["logits", "probs"]


def check(
    given: Mapping[Space, Any],
    correct: ArrayLike | None,
    labels: ArrayLike | None,
    class_names: ArrayLike | None,
    weights: ArrayLike | None,
    kind: Kind | None,
    positive_class: int | str | None = None,
) -> dict[str, Any]:
    """Return the fields of ``Predictions`` from scores in exactly one space."""
    present: list[Space] = [space for space, values in given.items() if values is not None]
    if len(present) != 1:
        got = " and ".join(f"`{space}`" for space in present) or "none of them"
        raise InputError(f"give exactly one of `logits`, `probs` and `confidence`; got {got}.")
    space = present[0]
    values = given[space]
    if space == "confidence":
        if class_names is not None or kind not in {None, "top_label"}:
            _ = checks.as_scores(values, name="confidence")
            raise InputError("`confidence` takes `correct`, but no `class_names` or other `kind`.")
        return {"space": space} | _confidences(values, correct, labels, weights)
    if correct is not None or kind == "top_label":
        raise InputError(f"`correct` and the kind top_label go with `confidence`, not with `{space}`.")
    if isinstance(values, ScoreFile):
        return {"space": space} | _scores_on_file(space, values, labels, class_names, weights, kind)
    values, labels, class_names = _of_frames(values, labels, class_names)
    values = checks.as_scores(values, name=space, judged=labels is not None)
    checked, names, words, repairs = classes_of(
        space, values, labels, class_names, weights, kind, positive_class
    )
    odd = oddities(checked.task, space, checked.scores, checked.labels, names)
    store, said = HeldScores(checked.scores), (*words, *repairs, *odd)
    return {"space": space} | _fields(checked.task, store, checked.labels, checked.weights, names, said)


def _fields(
    kind: Kind, store: Any, labels: Any, weights: Any, names: Any, notes: Any, correct: Any = None
) -> dict[str, Any]:
    fields = {"kind": kind, "_store": store, "labels": labels, "weights": weights, "class_names": names}
    return fields | {"notes": notes, "_correct": correct}


def _confidences(
    given: ArrayLike, correct: ArrayLike | None, labels: ArrayLike | None, weights: ArrayLike | None
) -> dict[str, Any]:
    judged = labels is not None or correct is not None
    values = checks.as_scores(given, name="confidence", judged=judged)
    if values.ndim != 1:
        raise InputError(f"`confidence` must have shape (N,), one per sample; got {tuple(values.shape)}.")
    values, repairs = checks.repair_events(values, name="confidence")
    right = None if correct is None else labels_of.as_correct(correct, len(values))
    true = None if labels is None else labels_of.as_true_classes(labels, len(values))
    mass = _checked_weights(weights, len(values))
    said = (*repairs, *oddities("top_label", "confidence", values, true, None))
    return _fields("top_label", HeldScores(values), true, mass, None, said, right)


def _scores_on_file(
    space: ClassSpace,
    file: ScoreFile,
    labels: ArrayLike | None,
    class_names: ArrayLike | None,
    weights: ArrayLike | None,
    kind: Kind | None,
) -> dict[str, Any]:
    """Check scores of several classes that stay in their file, reading only the first ones."""
    if kind not in {None, "multiclass"}:
        raise InputError(f"only multiclass predictions are read in pieces; got the kind {kind}.")
    num_samples, num_classes = file.shape
    checks.refuse_too_few(num_samples, f"`{space}`", judged=labels is not None)
    names = _names(class_names)
    targets = None if labels is None else labels_of.as_labels(labels, names)
    if targets is not None:
        if targets.shape != (num_samples,):
            got = tuple(targets.shape)
            raise InputError(f"`labels` must have shape ({num_samples},), one class per sample; got {got}.")
        check_label_range(targets, num_classes)
    names = None if names is None else checks.check_class_names(names, num_classes)
    checked = _checked_weights(weights, num_samples)
    store = FileScores(CheckedFile(file, space), np.arange(num_samples))
    first = store.read(next(store.pieces()))
    odd = oddities("multiclass", space, first, targets, names)
    return _fields("multiclass", store, targets, checked, names, odd)


def classes_of(
    space: ClassSpace,
    values: Tensor,
    labels: ArrayLike | None,
    class_names: ArrayLike | None,
    weights: ArrayLike | None,
    kind: Kind | None,
    positive_class: int | str | None = None,
) -> tuple[Checked, tuple[str, ...] | None, tuple[str, ...], tuple[str, ...]]:
    """Return scores with labels, class names, how labels were read, and repairs."""
    names, binary = _names(class_names), values.ndim == 1
    words: tuple[str, ...] = ()
    if binary and names is None and labels is not None:
        names = labels_of.event_names(labels, positive_class)
        if names is None and (names := labels_of.yes_and_no(labels)) is not None:
            words = (f"Labels are words: {names[1]} counts as class 1, {names[0]} as class 0.",)
    targets = None if labels is None else labels_of.as_labels(labels, names, binary=binary)
    if kind != "multilabel" and targets is not None and are_one_hot(space, values, targets):
        targets, words = targets.argmax(dim=1), (ONE_HOT,)
    mass = _checked_weights(weights, len(values))
    checked, repairs = check_scores(space, values, targets, mass, kind)
    names = None if names is None else checks.check_class_names(names, checked.num_classes)
    return checked, names, words, repairs


def _of_frames(values: Any, labels: Any, class_names: ArrayLike | None) -> tuple[Any, Any, ArrayLike | None]:
    columns, of_labels = frame_names(values), frame_names(labels)
    if of_labels and len(of_labels) == 1:
        labels = np.asarray(labels)[:, 0]
    elif columns and of_labels and columns != of_labels and sorted(columns) == sorted(of_labels):
        labels = np.asarray(labels)[:, [of_labels.index(name) for name in columns]]
    if columns and len(columns) == 1:
        return np.asarray(values)[:, 0], labels, class_names
    if columns and class_names is not None:
        labels_of.refuse_other_columns(columns, checks.as_names(class_names, name="class_names"))
    if columns == [*map(str, range(len(columns or ())))]:
        columns = None  # numbers in their order are no names
    return values, labels, columns if class_names is None else class_names


def _names(class_names: ArrayLike | None) -> tuple[str, ...] | None:
    return None if class_names is None else checks.as_names(class_names, name="class_names")


def _checked_weights(weights: ArrayLike | None, num_samples: int) -> Tensor | None:
    return None if weights is None else check_weights(weights, num_samples).cpu()


def check_scores(
    space: ClassSpace, values: Tensor, labels: Tensor | None, weights: Tensor | None, kind: Kind | None
) -> tuple[Checked, tuple[str, ...]]:
    task = None if kind == "top_label" else kind
    if space == "logits":
        return check_logits(values, labels, weights, task=task), ()
    repairs: tuple[str, ...] = ()
    multilabel = kind == "multilabel" or (labels is not None and labels.ndim == 2)
    if values.ndim == 1 or (values.ndim == 2 and multilabel):
        values, repairs = checks.repair_events(values, name="probs")
    elif values.ndim == 2 and values.shape[1] > 1:
        values, divided, largest = checks.repair_rows(values)
        repairs = checks.rows_divided(int(divided.sum()), len(divided), largest)
    return check_probs(values, labels, weights, task=task), repairs
