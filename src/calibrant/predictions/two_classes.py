"""Choose the event of two classes, and its scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.text_form import meant
from calibrant.predictions.checks import Kind, shown
from calibrant.predictions.labels import OPPOSITE_NAMES

POSITIVE_CLASS = "positive class"
RIGHT_OR_WRONG = ("wrong", "right")
"""The names of the classes of an event that is made of confidences."""


def positive_number(
    kind: Kind, num_classes: int | None, names: tuple[str, ...] | None, positive_class: int | str | None
) -> int:
    """Return 0 or 1 for a class by number or name; refuse other than two classes, or unknown names."""
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
    end = meant(str(positive_class), names or ()) or "."
    raise InputError(f"the positive class must be {there}; got {shown(str(positive_class))}{end}")


def event_title(names: Sequence[str] | None) -> str:
    """Return the name of class 1 in sentences: its own, unless that is a number or a word such as yes.

    Example:
        >>> event_title(["healthy", "sepsis"]), event_title(["no", "yes"]), event_title(None)
        ('sepsis', 'positive class', 'positive class')
    """
    name = names[1] if names is not None and len(names) == 2 else ""
    plain = not name or name.isdecimal() or name.lower() in OPPOSITE_NAMES
    return POSITIVE_CLASS if plain else name


def the_event(title: str) -> str:
    return f"the {title}" if title == POSITIVE_CLASS else title


def class_alone(values: Tensor, number: int, space: str) -> Tensor:
    """Return log-odds or unchanged probabilities of class 0 or 1 ``(n,)``, from two columns or class 1's."""
    wide = values.to(torch.float64)
    if values.ndim == 1:
        return values if number else -wide if space == "logits" else 1 - wide
    if space == "logits":
        return wide[:, number] - wide[:, 1 - number]
    stated, other = values[:, number], values[:, 1 - number]
    rounded = (stated == 1) & (other > 0)  # the other column knows how far it is from one
    if not bool(rounded.any()):
        return stated
    return torch.where(rounded, 1 - wide[:, 1 - number], wide[:, number])
