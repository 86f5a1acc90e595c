"""Checks that logits for a fitted calibrator have the kind and shape of its fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor, as_label_tensor, frame_names
from calibrant._math.checks import Checked, Task, check_logits, counted, positions_of, seem_probabilities
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.simplex import back_to, working_dtype
from calibrant.calibrators.fitting.results import FitResult

_MOST_NAMED = 5  # classes


class Fitted(Protocol):
    """Facts about a calibrator's fit that scores must match."""

    name: ClassVar[str]
    kind_: Task
    class_names_: tuple[str, ...] | None
    event_column_: int
    fit_result_: FitResult


def check_kind(name: str, kinds: Collection[Task], kind: Task, *, remedy: str) -> None:
    if kind in kinds:
        return
    wanted = "classes, logits (N, C) with `labels` (N,)"
    if "multiclass" not in kinds:
        wanted = "log-odds, (N,) or (N, C) with `labels` (N, C)"
    raise InputError(f"{name} needs {wanted}; these are {kind}; {remedy}.")


def check_like_fit(
    name: str, kind: Task, num_classes: int, logits: ArrayLike, weights: ArrayLike | None = None
) -> Checked:
    """Check shapes and values; there may be no rows; ``name`` is the calibrator's."""
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
    """Check the shape alone: a traced graph cannot read values."""
    wanted = () if kind == "binary" else (num_classes,)
    if logits.shape[1:] != wanted:
        shape = ", ".join(("N", *map(str, wanted))) + ("" if wanted else ",")
        raise InputError(
            f"`logits` must have the shape ({shape}) that {name} was fitted on; got {tuple(logits.shape)}."
        )


def class_columns(logits: ArrayLike) -> tuple[str, ...] | None:
    """Column names of a frame as class names; None for other tables and for consecutive numbers."""
    named = None if isinstance(logits, Tensor) else frame_names(logits)
    return tuple(named) if named and named != [*map(str, range(len(named)))] else None


def column_of_event(calibrator: Fitted, logits: ArrayLike) -> int:
    """Index of the event among two columns; refuses other column names than the classes."""
    known, named = calibrator.class_names_, class_columns(logits)
    if named is None or known is None or len(named) != len(known):
        return calibrator.event_column_
    if calibrator.kind_ == "binary" and named == known[::-1] != known:
        return 0
    refuse_other_names("`logits`", named, calibrator.name, known)
    return 1


def names_of_columns(calibrator: Fitted) -> tuple[str, ...] | None:
    names = calibrator.class_names_
    return names if names is None or calibrator.event_column_ else names[::-1]


def refuse_other_columns(calibrator: Fitted, logits: ArrayLike) -> None:
    """Refuse a table with columns in another order than the model's, also for two classes."""
    if column_of_event(calibrator, logits) != calibrator.event_column_:
        refuse_other_names("`logits`", class_columns(logits), calibrator.name, names_of_columns(calibrator))


def refuse_other_names(
    what: str, named: tuple[str, ...] | None, calibrator: str, known: tuple[str, ...] | None
) -> None:
    if known is not None and named is not None and known != named:
        same = sorted(known) == sorted(named)
        remedy = "bring the columns into that order" if same else "fit a calibrator for these classes"
        classes = f"{what} names its classes {_listed(named)}, {calibrator} was fitted on {_listed(known)}"
        raise InputError(f"{classes}; {remedy}.")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")


def warn_of_probabilities(calibrator: Fitted, logits: Tensor) -> None:
    """Warn of logits that look like probabilities, unless the fit already warned."""
    seen = seem_probabilities(logits, multiclass=logits.ndim == 2 and calibrator.kind_ != "multilabel")
    if seen and not any(each.startswith(seen) for each in calibrator.fit_result_.warnings):
        warnings.warn(
            f"{seen}; {calibrator.name} takes logits: to calibrate probabilities call "
            "`calibrant.apply(calibrator, calibrant.Predictions(probs=probs))`.",
            CalibrantWarning,
            stacklevel=5,
        )


def in_columns(event: Tensor, other: Tensor, column: int) -> Tensor:
    return torch.stack([other, event] if column else [event, other], dim=1)


def difference(logits: ArrayLike, event: int = 1) -> Tensor | None:
    """Log-odds from two logits; None unless the shape is ``(N, 2)``."""
    given = logits if isinstance(logits, Tensor) else as_float_tensor(logits, name="logits")
    if given.ndim != 2 or given.shape[1] != 2:
        return None
    wide = given.to(working_dtype(given.dtype))
    return back_to(wide[:, event] - wide[:, 1 - event], given.dtype)


def counted_positions(
    logits: ArrayLike, labels: ArrayLike, weights: ArrayLike | None, ignore_index: int | None
) -> tuple[ArrayLike, ArrayLike, ArrayLike | None]:
    """One row per position of ``(N, C, d1, ...)``, without ignored labels; other shapes stay."""
    scores = logits if isinstance(logits, Tensor) else as_float_tensor(logits, name="logits")
    if scores.ndim < 3 and ignore_index is None:
        return logits, labels, weights
    target = as_label_tensor(labels, name="labels").to(scores.device)
    mass = None if weights is None else as_float_tensor(weights, name="weights").to(scores.device)
    if scores.ndim > 2:
        scores, target, mass = positions_of("logits", scores, target, mass)
    return (scores, target, mass) if ignore_index is None else counted(scores, target, mass, ignore_index)


def at_positions(logits: ArrayLike, kind: Task, function: Callable[[Tensor], Tensor]) -> Tensor | None:
    """Apply a function of ``(M, C)``, or of log-odds ``(M,)``, at each position; None for fewer axes."""
    if not isinstance(logits, Tensor):
        logits = as_float_tensor(logits, name="logits")
    if logits.ndim < 3:
        return None
    if kind == "binary" and logits.shape[1] != 2:
        return function(logits.reshape(-1)).reshape(logits.shape)
    rows = logits.movedim(1, -1)
    return function(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape).movedim(-1, 1)
