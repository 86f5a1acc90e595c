"""What the losses of a last layer are given, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant.losses._rows import check_is_tensor

RowLoss: TypeAlias = Callable[..., Tensor]


def check_layer(
    hidden: Tensor, weight: Tensor, labels: Tensor, bias: Tensor | None, class_weight: Tensor | None
) -> None:
    """Refuse shapes, types and devices that do not go together."""
    floating = {"hidden": hidden, "weight": weight, "bias": bias, "class_weight": class_weight}
    given = {name: value for name, value in floating.items() if value is not None}
    for name, value in (*given.items(), ("labels", labels)):
        check_is_tensor(value, name)
        if name != "labels" and not value.is_floating_point():
            raise TypeError(f"`{name}` must be floating-point; got {value.dtype}.")
        if value.device != hidden.device:
            raise InputError(
                f"`{name}` must be on the device of `hidden`, {hidden.device}; got {value.device}."
            )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"`labels` must be integers, one class per row; got {labels.dtype}.")
    if weight.ndim != 2 or len(weight) < 2:
        raise InputError(
            f"`weight` must have shape (V, H) with at least two classes; got {tuple(weight.shape)}."
        )
    _check_shape("hidden", hidden, (*hidden.shape[:-1], weight.shape[1]), "weight", weight)
    _check_shape("labels", labels, hidden.shape[:-1], "hidden", hidden)
    for name in given.keys() & {"bias", "class_weight"}:
        _check_shape(name, given[name], weight.shape[:1], "weight", weight)
    if not torch.is_autocast_enabled(hidden.device.type):
        for name in given.keys() & {"bias", "weight"}:
            if given[name].dtype != hidden.dtype:
                raise InputError(
                    f"`{name}` must have the type of `hidden`, {hidden.dtype}; got {given[name].dtype}."
                )


def _check_shape(name: str, value: Tensor, shape: Sequence[int], other_name: str, other: Tensor) -> None:
    if value.shape != tuple(shape):
        raise InputError(
            f"`{name}` must have shape {tuple(shape)} to go with `{other_name}` of shape "
            f"{tuple(other.shape)}; got {tuple(value.shape)}."
        )


def check_row_loss(loss: RowLoss, ignore_index: int) -> None:
    """Refuse what has no value per row, by trying it on one row."""
    row, label = torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)
    try:
        loss(row, label, weight=None, ignore_index=ignore_index, reduction="sum")
    except (TypeError, ValueError) as error:
        raise InputError(
            "`loss` must be a function with a value per row, such as `calibrant.losses.focal_loss`, with "
            f"settings given by functools.partial; got one that says: {error}"
        ) from error
