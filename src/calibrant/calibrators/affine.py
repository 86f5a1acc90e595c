"""Affine maps of logits, and how the layer that gives the logits takes them up."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

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


def of_two_logits(of_log_odds: Affine) -> Affine:
    """The map of two logits that changes their difference as the log-odds were changed."""
    shift = of_log_odds.bias
    return scaling(2, of_log_odds.weight[0, 0], torch.cat([torch.zeros_like(shift), shift]))


def merged(linear: nn.Linear, affine: Affine) -> nn.Linear:
    """The layer, and after it the map, as one layer; the number of outputs must agree."""
    old = linear.weight.detach()
    weight, bias = (part.to(device=old.device, dtype=torch.float64) for part in affine)
    old_bias = dict(linear.named_parameters(recurse=False)).get("bias")
    if old_bias is not None:
        bias = weight @ old_bias.detach().to(torch.float64) + bias
    has_bias = old_bias is not None or bool(bias.any())
    # Made without memory, so that no random numbers are drawn for weights that are replaced.
    empty = nn.Linear(linear.in_features, len(bias), bias=has_bias, device="meta", dtype=old.dtype)
    layer = empty.to_empty(device=old.device)
    with torch.no_grad():
        layer.weight.copy_(weight @ old.to(torch.float64))
        if has_bias:
            layer.bias.copy_(bias)
    return layer.requires_grad_(linear.weight.requires_grad).train(linear.training)
