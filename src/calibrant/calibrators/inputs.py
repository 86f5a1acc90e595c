"""Logits given to a fitted calibrator: of the kind and shape of the fit."""

from __future__ import annotations

from collections.abc import Callable, Collection

from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor, as_label_tensor
from calibrant._math.checks import Checked, Task, check_logits, counted, positions_of
from calibrant._math.errors import InputError
from calibrant._math.simplex import back_to, working_dtype


def check_kind(name: str, kinds: Collection[Task], kind: Task, *, remedy: str) -> None:
    """Refuse data of a kind that the calibrator of that name is not for."""
    if kind in kinds:
        return
    wanted = "classes, logits (N, C) with `labels` (N,)"
    if "multiclass" not in kinds:
        wanted = "log-odds, (N,) or (N, C) with `labels` (N, C)"
    raise InputError(f"{name} needs {wanted}; these are {kind}; {remedy}.")


def check_like_fit(
    name: str, kind: Task, num_classes: int, logits: ArrayLike, weights: ArrayLike | None = None
) -> Checked:
    """Shapes and values, of which there may be none; ``name`` is that of the calibrator."""
    given = as_float_tensor(logits, name="logits")
    if given.ndim in {1, 2} and not len(given) and weights is None:
        check_shape_like_fit(name, kind, num_classes, given)
        return Checked(given, None, None, kind, num_classes)
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


def difference(logits: ArrayLike) -> Tensor | None:
    """The log-odds that two logits make; None of anything but ``(N, 2)``."""
    given = logits if isinstance(logits, Tensor) else as_float_tensor(logits, name="logits")
    if given.ndim != 2 or given.shape[1] != 2:
        return None
    wide = given.to(working_dtype(given.dtype))
    return back_to(wide[:, 1] - wide[:, 0], given.dtype)


def counted_positions(
    logits: ArrayLike, labels: ArrayLike, weights: ArrayLike | None, ignore_index: int | None
) -> tuple[ArrayLike, ArrayLike, ArrayLike | None]:
    """One row per position of ``(N, C, d1, ...)``, without those whose label is ignored; else as it was."""
    scores = logits if isinstance(logits, Tensor) else as_float_tensor(logits, name="logits")
    if scores.ndim < 3 and ignore_index is None:
        return logits, labels, weights
    target = as_label_tensor(labels, name="labels").to(scores.device)
    mass = None if weights is None else as_float_tensor(weights, name="weights").to(scores.device)
    if scores.ndim > 2:
        scores, target, mass = positions_of("logits", scores, target, mass)
    return (scores, target, mass) if ignore_index is None else counted(scores, target, mass, ignore_index)


def at_positions(logits: ArrayLike, kind: Task, function: Callable[[Tensor], Tensor]) -> Tensor | None:
    """What a function of ``(M, C)``, or of log-odds ``(M,)``, gives at each position; None of fewer axes."""
    if not isinstance(logits, Tensor):
        logits = as_float_tensor(logits, name="logits")
    if logits.ndim < 3:
        return None
    if kind == "binary" and logits.shape[1] != 2:
        return function(logits.reshape(-1)).reshape(logits.shape)
    rows = logits.movedim(1, -1)
    return function(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape).movedim(-1, 1)
