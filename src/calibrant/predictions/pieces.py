"""Checked rows of a table that is read some rows at a time, of any kind of predictions."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.top_k import TopK
from calibrant.predictions import checks
from calibrant.predictions import labels as labels_of
from calibrant.predictions.checks import Kind
from calibrant.predictions.kinds import classes_of
from calibrant.predictions.oddities import are_one_hot


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Checked rows in memory; what is one number of each, an event or a confidence, has two columns."""

    first_row: int
    scores: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]
    """True classes ``(n,)``, or several labels ``(n, L)``; of confidences, whether they are right."""
    truth: NDArray[np.int64]
    """What tells samples apart: the labels, or the true classes where these are not."""
    split: NDArray[np.uint8] | None = None
    clusters: tuple[str, ...] | None = None
    weights: NDArray[np.float64] | None = None
    groups: tuple[str, ...] | None = None
    repairs: tuple[str, ...] = ()
    class_names: tuple[str, ...] | None
    top_k: TopK | None = None
    """What confidences were computed from, where that are the largest logits."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the whole table."""

    def at(self, temperature: float) -> Piece:
        """Confidences with the logits over a temperature; refuses all but those from the largest logits."""
        if self.top_k is None:
            raise InputError("the largest logits of each sample must be known.")
        return replace(self, scores=_two_columns(self.top_k.at(temperature).confidence))

    def label(self, place: int, *, logits: bool) -> Piece:
        """One of several labels, as an event."""
        stated = torch.from_numpy(self.scores[:, place])
        scores = columns_of_odds(stated).numpy() if logits else _two_columns(stated)
        return replace(self, scores=scores, labels=self.labels[:, place], truth=self.truth[:, place])

    def turned(self) -> Piece:
        """These rows with the two classes of an event in the other order."""
        names = ("0", "1") if self.class_names is None else self.class_names
        return replace(
            self,
            scores=self.scores[:, ::-1].copy(),
            labels=1 - self.labels,
            truth=1 - self.truth,
            class_names=(names[1], names[0]),
        )


def columns_of_odds(log_odds: Tensor) -> Tensor:
    """Logits of two classes; those of what is certain are its log-probabilities.

    Example:
        >>> columns_of_odds(torch.tensor([1.5, float("inf")])).tolist()
        [[0.0, 1.5], [-inf, 0.0]]
    """
    sure = log_odds.isposinf()
    zero = torch.zeros_like(log_odds)
    return torch.stack([zero.masked_fill(sure, -torch.inf), log_odds.masked_fill(sure, 0.0)], dim=1)


def piece_of(fields: Mapping[str, Any], kind: Kind, first_row: int) -> Piece:
    """The arguments of ``Predictions``, checked; refuses wrong scores or labels, and rows without labels."""
    top_k: TopK | None = None
    notes = tuple(fields.get("notes", ()))
    if "top_k" in fields:
        names, repairs = None, tuple(fields["repairs"])
        top_k, labels, truth = _largest(fields)
        scores = _two_columns(top_k.confidence)
    elif kind == "top_label":
        scores, labels, truth, repairs = _confidences(fields)
        names = None
    else:
        scores, labels, names, words, repairs = _classes(fields, kind)
        truth, notes = labels, (*notes, *words)
    split, clusters, groups = (fields.get(each) for each in ("split", "clusters", "groups"))
    return Piece(
        first_row=first_row,
        scores=scores,
        labels=labels,
        truth=truth,
        split=None if split is None else checks.as_split(split, len(labels)).numpy(),
        clusters=checks.as_groups(clusters, len(labels), name="clusters"),
        weights=fields.get("weights"),
        groups=checks.as_groups(groups, len(labels)),
        repairs=repairs,
        class_names=names,
        top_k=top_k,
        notes=notes,
    )


def holds_one_hot(fields: Mapping[str, Any]) -> bool:
    """Whether labels are classes written as rows of zeros and a one."""
    labels = fields.get("labels")
    if "probs" not in fields or not isinstance(labels, np.ndarray) or labels.ndim != 2:
        return False
    return are_one_hot("probs", torch.as_tensor(fields["probs"]), torch.as_tensor(labels))


def _classes(fields: Mapping[str, Any], kind: Kind) -> tuple[Any, ...]:
    space = "logits" if "logits" in fields else "probs"
    if fields.get("labels") is None:
        raise InputError("`labels` must be given to evaluate predictions; got none.")
    values = torch.from_numpy(np.ascontiguousarray(fields[space]))
    several = "multilabel" if kind == "multilabel" else None
    checked, *said = classes_of(space, values, fields["labels"], fields.get("class_names"), None, several)
    found = checked.scores
    if found.ndim == 1:
        found = columns_of_odds(found) if space == "logits" else torch.from_numpy(_two_columns(found))
    return found.numpy(), cast("Tensor", checked.labels).numpy(), *said


def _confidences(
    fields: Mapping[str, Any],
) -> tuple[NDArray[np.floating[Any]], NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    if fields.get("correct") is None:
        raise InputError("whether predictions are correct cannot be told without `correct`.")
    values = torch.from_numpy(np.ascontiguousarray(fields["confidence"]))
    values, repairs = checks.repair_events(values, name="confidence")
    right = labels_of.as_correct(fields["correct"], len(values)).numpy().astype(np.int64)
    true = fields.get("labels")
    return _two_columns(values), right, right if true is None else _numbers(true), repairs


def _largest(fields: Mapping[str, Any]) -> tuple[TopK, NDArray[np.int64], NDArray[np.int64]]:
    """The largest logits, whether the most probable class is true, and the true class as the table has it.

    Classes that are texts are numbered anew in every piece.
    """
    top_k, true = fields["top_k"], fields["labels"]
    if true is None:
        raise InputError("`labels` must be given to evaluate predictions; got none.")
    top_k = replace(top_k, label_logits=top_k.logits_of(true))
    return top_k, (top_k.predicted == true).numpy().astype(np.int64), _numbers(fields["truth"])


def _two_columns(probs: Tensor) -> NDArray[np.float64]:
    """The probabilities that an event does not happen, and that it does."""
    found = probs.to(torch.float64).numpy()
    return np.stack([1 - found, found], axis=1)


def _numbers(true: Any) -> NDArray[np.int64]:
    """True classes as numbers, which are the same in every piece."""
    texts = checks.as_texts(true)
    if texts is None:
        return labels_of.as_true_classes(true, len(true)).numpy()
    numbers = [labels_of.whole_number(text) for text in texts]
    named = zip(numbers, texts, strict=True)
    return np.array([zlib.crc32(text.encode()) if each is None else each for each, text in named], np.int64)
