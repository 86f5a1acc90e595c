"""Scores of each kind of predictions, checked together with what belongs to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, check_label_range, check_logits, check_probs, check_weights
from calibrant._math.errors import InputError
from calibrant._math.shapes import Bool, Float, Int
from calibrant.predictions import checks
from calibrant.predictions import labels as labels_of
from calibrant.predictions.checks import Kind
from calibrant.predictions.oddities import ONE_HOT, are_one_hot, oddities
from calibrant.predictions.stores import CheckedFile, FileScores, HeldScores, ScoreFile, ScoreStore

Space: TypeAlias = Literal["logits", "probs", "confidence"]
ClassSpace: TypeAlias = Literal["logits", "probs"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of a kind with what was checked together with them."""

    kind: Kind
    space: Space
    store: ScoreStore
    labels: Int[Tensor, " N"] | Int[Tensor, "N C"] | None
    weights: Float[Tensor, " N"] | None
    correct: Bool[Tensor, " N"] | None = None
    class_names: tuple[str, ...] | None = None
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Companions:
    """What is given with scores and checked against them."""

    correct: ArrayLike | None = None
    labels: ArrayLike | None
    class_names: ArrayLike | None
    weights: ArrayLike | None = None
    kind: Kind | None

    def names(self) -> tuple[str, ...] | None:
        """The names of the classes, if there are any."""
        return None if self.class_names is None else checks.as_names(self.class_names, name="class_names")

    def checked_weights(self, num_samples: int) -> Tensor | None:
        """The weights, if there are any."""
        return None if self.weights is None else check_weights(self.weights, num_samples).cpu()


def check(given: Mapping[Space, Any], beside: Companions) -> Scores:
    """Scores of any kind; exactly one space is given."""
    present: list[Space] = [space for space, values in given.items() if values is not None]
    if len(present) != 1:
        got = " and ".join(f"`{space}`" for space in present) or "none of them"
        raise InputError(f"give exactly one of `logits`, `probs` and `confidence`; got {got}.")
    space = present[0]
    values = given[space]
    if space == "confidence":
        return confidences(values, beside)
    if beside.correct is not None or beside.kind == "top_label":
        raise InputError(f"`correct` and the kind top_label go with `confidence`, not with `{space}`.")
    if isinstance(values, ScoreFile):
        return scores_on_file(space, values, beside)
    return scores_in_memory(space, values, beside)


def confidences(given: ArrayLike, beside: Companions) -> Scores:
    """Top-label confidences: one probability per sample."""
    values = checks.as_scores(given, name="confidence")
    if beside.class_names is not None or beside.kind not in {None, "top_label"}:
        raise InputError("`confidence` goes with `correct`, without `class_names` or other `kind`.")
    if values.ndim != 1:
        raise InputError(f"`confidence` must have shape (N,), one per sample; got {tuple(values.shape)}.")
    values, repairs = checks.repair_events(values, name="confidence")
    true = None if beside.labels is None else labels_of.as_true_classes(beside.labels, len(values))
    return Scores(
        kind="top_label",
        space="confidence",
        store=HeldScores(values),
        correct=None if beside.correct is None else labels_of.as_correct(beside.correct, len(values)),
        labels=true,
        weights=beside.checked_weights(len(values)),
        notes=(*repairs, *oddities("top_label", "confidence", values, true, None)),
    )


def scores_in_memory(space: ClassSpace, given: ArrayLike, beside: Companions) -> Scores:
    """Logits or probabilities; the shapes say the kind."""
    checked, names, words, repairs = classes_of(space, checks.as_scores(given, name=space), beside)
    return Scores(
        kind=checked.task,
        space=space,
        store=HeldScores(checked.scores),
        labels=checked.labels,
        weights=checked.weights,
        class_names=names,
        notes=(*words, *repairs, *oddities(checked.task, space, checked.scores, checked.labels, names)),
    )


def classes_of(
    space: ClassSpace, values: Tensor, beside: Companions
) -> tuple[Checked, tuple[str, ...] | None, tuple[str, ...], tuple[str, ...]]:
    """Scores with labels, the names of the classes, how labels were read, and what was repaired."""
    names, labels, binary = beside.names(), beside.labels, values.ndim == 1
    words: tuple[str, ...] = ()
    if binary and names is None and labels is not None:
        names = labels_of.yes_and_no(labels)
        if names is not None:
            words = (f"Labels are words: {names[1]} counts as class 1, {names[0]} as class 0.",)
    targets = None if labels is None else labels_of.as_labels(labels, names, binary=binary)
    if beside.kind != "multilabel" and targets is not None and are_one_hot(space, values, targets):
        targets, words = targets.argmax(dim=1), (ONE_HOT,)
    checked, repairs = check_scores(space, values, targets, beside.checked_weights(len(values)), beside.kind)
    names = None if names is None else checks.check_class_names(names, checked.num_classes)
    return checked, names, words, repairs


def scores_on_file(space: ClassSpace, file: ScoreFile, beside: Companions) -> Scores:
    """Scores of several classes that stay in their file; only the first of them are read now."""
    if beside.kind not in {None, "multiclass"}:
        raise InputError(f"only multiclass predictions are read in pieces; got the kind {beside.kind}.")
    num_samples, num_classes = file.shape
    checks.refuse_too_few(num_samples, f"`{space}`")
    names = beside.names()
    targets = None if beside.labels is None else _class_labels(beside.labels, names, file.shape)
    names = None if names is None else checks.check_class_names(names, num_classes)
    weights = beside.checked_weights(num_samples)
    store = FileScores(CheckedFile(file, space), np.arange(num_samples))
    first = store.read(next(store.pieces()))
    return Scores(
        kind="multiclass",
        space=space,
        store=store,
        labels=targets,
        weights=weights,
        class_names=names,
        notes=oddities("multiclass", space, first, targets, names),
    )


def check_scores(
    space: ClassSpace, values: Tensor, labels: Tensor | None, weights: Tensor | None, kind: Kind | None
) -> tuple[Checked, tuple[str, ...]]:
    """Logits or probabilities with what goes with them, and what had to be repaired."""
    task = None if kind == "top_label" else kind
    if space == "logits":
        return check_logits(values, labels, weights, task=task), ()
    repairs: tuple[str, ...] = ()
    multilabel = kind == "multilabel" or (labels is not None and labels.ndim == 2)
    if values.ndim == 1 or (values.ndim == 2 and multilabel):
        values, repairs = checks.repair_events(values, name="probs")
    elif values.ndim == 2 and values.shape[1] > 1:
        values, repairs = checks.repair_rows(values)
    return check_probs(values, labels, weights, task=task), repairs


def _class_labels(labels: ArrayLike, names: tuple[str, ...] | None, shape: tuple[int, int]) -> Tensor:
    found = labels_of.as_labels(labels, names)
    num_samples, num_classes = shape
    if found.shape != (num_samples,):
        raise InputError(
            f"`labels` must have shape ({num_samples},), one class per sample; got {tuple(found.shape)}."
        )
    check_label_range(found, num_classes)
    return found
