"""Gradients that can be differentiated again, and what is asked of a loss for that."""

from __future__ import annotations

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
    """As torch's: zero where nothing depends, the graph kept for the next product."""
    outputs = of if isinstance(of, tuple) else (of,)
    weights = along or tuple(torch.ones_like(output) for output in outputs)
    pairs = [(out, way) for out, way in zip(outputs, weights, strict=True) if out.requires_grad]
    if not pairs:  # linear in the parameters: nothing left to differentiate
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


def check_mean_loss(loss: Tensor) -> None:
    """Refuse a loss that is not one number."""
    if loss.ndim != 0:
        raise InputError(
            f"`loss` must return the mean of a batch, one number; got shape {tuple(loss.shape)}: "
            'use `reduction="mean"`.'
        )


def wide(tensor: Tensor) -> torch.dtype:
    """What sums are taken in: float64, or float32 on a device that has nothing wider."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64
