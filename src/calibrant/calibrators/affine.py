"""Affine maps of logits, and merging them into the layer before."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from calibrant._math.checks import Task
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float


class Affine(NamedTuple):
    """A map of K logits: ``weight @ logits + bias``."""

    weight: Float[Tensor, "K K"]
    bias: Float[Tensor, " K"]


def scaling(count: int, factor: Tensor, shift: Tensor | None = None) -> Affine:
    """One factor and one shift, for all outputs or for each."""
    factors = factor.expand(count) if factor.ndim == 0 else factor
    shifts = factors.new_zeros(count) if shift is None else shift.expand(count)
    return Affine(factors.diag(), shifts)


def folded(
    linear: nn.Linear, affine: Affine | None, kind: Task, count: int, name: str, event: int
) -> nn.Linear:
    """Layer with the map of a calibrator of ``count`` outputs merged into it."""
    if not isinstance(linear, nn.Linear):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`linear` must be an nn.Linear; got {type(linear).__name__}.")
    if affine is None:
        raise InputError(
            f"`linear` cannot take up {name} as it was fitted: it is not an affine map of logits; "
            "use CalibratedModel(model, calibrator), which keeps it as a module."
        )
    if kind == "binary" and linear.out_features == 2:  # whose difference is the log-odds
        shift = affine.bias
        shifts = torch.cat([torch.zeros_like(shift), shift])
        count, affine = 2, scaling(2, affine.weight[0, 0], shifts if event else shifts.flip(0))
    if linear.out_features != count:
        raise InputError(
            f"`linear` must have {count} output{'s' if count > 1 else ''}, which {name} was "
            f"fitted on; got {linear.out_features}."
        )
    old = linear.weight.detach()
    weight, bias = (part.to(device=old.device, dtype=torch.float64) for part in affine)
    old_bias = dict(linear.named_parameters(recurse=False)).get("bias")
    if old_bias is not None:
        bias = weight @ old_bias.detach().to(torch.float64) + bias
    has_bias = old_bias is not None or bool(bias.any())
    # Built without memory, to avoid random numbers for weights that are replaced.
    empty = nn.Linear(linear.in_features, len(bias), bias=has_bias, device="meta", dtype=old.dtype)
    layer = empty.to_empty(device=old.device)
    with torch.no_grad():
        layer.weight.copy_(weight @ old.to(torch.float64))
        if has_bias:
            layer.bias.copy_(bias)
    return layer.requires_grad_(linear.weight.requires_grad).train(linear.training)
