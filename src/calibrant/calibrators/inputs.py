"""Logits given to a fitted calibrator: of the kind and shape of the fit."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, Task, check_logits
from calibrant._math.errors import InputError


def check_like_fit(
    name: str, kind: Task, num_classes: int, logits: ArrayLike, weights: ArrayLike | None = None
) -> Checked:
    """Shapes and values; ``name`` is that of the calibrator."""
    checked = check_logits(logits, weights=weights, task=kind, allow_minus_inf=True)
    if checked.num_classes != num_classes:
        raise InputError(
            f"`logits` must have the {num_classes} columns that {name} was fitted on; "
            f"got {checked.num_classes}."
        )
    return checked


def check_shape_like_fit(name: str, kind: Task, num_classes: int, logits: Tensor) -> None:
    """The shape alone, for a graph that is traced: no look at values."""
    wanted = () if kind == "binary" else (num_classes,)
    if logits.shape[1:] != wanted:
        shape = ", ".join(("N", *map(str, wanted))) + ("" if wanted else ",")
        raise InputError(
            f"`logits` must have the shape ({shape}) that {name} was fitted on; got {tuple(logits.shape)}."
        )
