"""Predictions as one event: that a sample is of the positive class, or that its prediction is right."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant.predictions.checks import Kind, shown
from calibrant.predictions.contents import Contents
from calibrant.predictions.stores import HeldScores

RIGHT_OR_WRONG = ("wrong", "right")
"""The names of the classes of an event that is made of confidences."""


def as_event(contents: Contents, positive_class: int | str | None) -> Contents:
    """One number per sample, the log-odds or probability of the positive class, which becomes class 1.

    For top-label confidences, class 1 says that the prediction is right.

    Raises:
        InputError: If there are not two classes, or the positive one is none of them.
    """
    if contents.kind == "top_label" and positive_class is None:
        right = None if contents.correct is None else contents.correct.to(torch.int64)
        return replace(
            contents, kind="binary", space="probs", correct=None, labels=right, class_names=RIGHT_OR_WRONG
        )
    two_columns = contents.kind == "multiclass" and contents.num_classes == 2
    positive = positive_number(contents.kind, contents.num_classes, contents.class_names, positive_class)
    if not two_columns and positive == 1:
        return contents
    names = contents.class_names
    if positive == 0:
        names = ("1", "0") if names is None else (names[1], names[0])
    labels = contents.labels
    called = str(positive) if contents.class_names is None else contents.class_names[positive]
    called = f"class {called}" if called.isdigit() else called
    note = f"Two columns are one event: {called} is positive."
    return replace(
        contents,
        kind="binary",
        store=HeldScores(_columns_as_one(contents, positive) if two_columns else _negated(contents)),
        labels=labels if labels is None or positive == 1 else 1 - labels,
        class_names=names,
        notes=(*contents.all_notes, note) if two_columns else contents.notes,
    )


def positive_number(
    kind: Kind, num_classes: int | None, names: tuple[str, ...] | None, positive_class: int | str | None
) -> int:
    """0 or 1; a class may be called by its name.

    Raises:
        InputError: If there are not two classes, or the positive one is none of them.
    """
    if kind in {"top_label", "multilabel"} or num_classes != 2:
        held = {"top_label": "top-label confidences", "multilabel": f"{num_classes} labels"}
        got = held.get(kind, f"{num_classes} classes")
        raise InputError(
            f"`positive_class` (--positive-class) needs two classes, and there are {got}; leave it out."
        )
    if positive_class is None:
        return 1
    if names is not None and names.count(str(positive_class)) == 1:
        return names.index(str(positive_class))
    if str(positive_class) in {"0", "1"}:
        return int(positive_class)
    there = "0 or 1" if names is None else f"0, 1, {names[0]} or {names[1]}"
    raise InputError(f"`positive_class` must be {there}; got {shown(str(positive_class))}.")


def _columns_as_one(contents: Contents, positive: int) -> Tensor:
    """Log-odds, or the positive column as it is; read in pieces where it lies in a file."""
    store = contents.store
    parts = [_one(store.read(rows), positive, logits=contents.space == "logits") for rows in store.pieces()]
    return torch.cat(parts)


def _one(values: Tensor, positive: int, *, logits: bool) -> Tensor:
    if logits:
        wide = values.to(torch.float64)
        return wide[:, positive] - wide[:, 1 - positive]
    stated, other = values[:, positive], values[:, 1 - positive]
    rounded = (stated == 1) & (other > 0)  # the other column knows how far it is from one
    if not bool(rounded.any()):
        return stated
    return torch.where(rounded, 1 - other.to(torch.float64), stated.to(torch.float64))


def _negated(contents: Contents) -> Tensor:
    """The values of the other class."""
    values = contents.store.read(slice(None)).to(torch.float64)
    return -values if contents.space == "logits" else 1 - values
