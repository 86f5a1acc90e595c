"""Gradients that can be differentiated again, and their requirements on a loss."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from calibrant._math.errors import InputError


def gradient(
    of: Tensor | tuple[Tensor, ...],
    by: tuple[Tensor, ...],
    *,
    along: tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
) -> tuple[Tensor, ...]:
    """Like :func:`torch.autograd.grad`, but zero for independent inputs, and the graph stays."""
    outputs = of if isinstance(of, tuple) else (of,)
    weights = along or tuple(torch.ones_like(output) for output in outputs)
    pairs = [(out, way) for out, way in zip(outputs, weights, strict=True) if out.requires_grad]
    if not pairs:  # linear in the parameters: no further derivative
        return tuple(torch.zeros_like(value) for value in by)
    return torch.autograd.grad(
        [out for out, _ in pairs],
        by,
        [way for _, way in pairs],
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )


_FEWEST = 4  # fewer products with a network's Hessian are cheaper one by one


class Together:
    """Applies a function of a vector to several: all at once, or one by one where torch cannot do that.

    What torch cannot do (custom functions without a batching rule, in-place changes, values that are read)
    shows at the first call; after that it is not tried again.
    """

    def __init__(self, *, fewest: int = _FEWEST) -> None:
        self._fewest, self._refused = fewest, False

    def __call__(self, function: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
        """Map rows of vectors to rows of results."""
        if len(rows) == 1:
            return function(rows[0])[None]
        if len(rows) >= self._fewest and not self._refused:
            try:
                with warnings.catch_warnings():
                    # Operations without a batching rule run one by one, as all would without batching.
                    warnings.simplefilter("ignore")
                    return torch.vmap(function)(rows)
            except Exception:  # any error: a real one appears again one by one
                self._refused = True
        return torch.stack([function(row) for row in rows])


def check_mean_loss(loss: object) -> None:
    if not isinstance(loss, Tensor):
        raise InputError(f"`loss` must return a tensor with a gradient; got {type(loss).__name__}.")
    if loss.ndim != 0:
        raise InputError(
            f"`loss` must return the mean of a batch, one number; got shape {tuple(loss.shape)}: "
            'use `reduction="mean"`.'
        )


def wide(tensor: Tensor) -> torch.dtype:
    """Type for sums: float64, or float32 on a device without it."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64
