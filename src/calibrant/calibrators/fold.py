"""Calibrators that are affine maps of logits, put into the weights of the layer that gives these."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError

if TYPE_CHECKING:
    from jaxtyping import Float

    from calibrant.calibrators.base import Calibrator


class Affine(NamedTuple):
    """A map of K logits: ``weight @ logits + bias``."""

    weight: Float[Tensor, "K K"]
    bias: Float[Tensor, " K"]


def scaling(calibrator: Calibrator, factor: Tensor, shift: Tensor | None = None) -> Affine:
    """One factor and one shift, for all outputs or for each."""
    count = num_outputs(calibrator)
    factors = factor.expand(count) if factor.ndim == 0 else factor
    shifts = factors.new_zeros(count) if shift is None else shift.expand(count)
    return Affine(factors.diag(), shifts)


def num_outputs(calibrator: Calibrator) -> int:
    """How many numbers a model gives for each sample; one where they are log-odds ``(N,)``."""
    return 1 if calibrator.kind_ == "binary" else calibrator.num_classes_


def fold(calibrator: Calibrator, linear: nn.Linear) -> nn.Linear:
    """See :meth:`Calibrator.fold_into`."""
    if not isinstance(linear, nn.Linear):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"`linear` must be an nn.Linear; got {type(linear).__name__}.")
    count, affine = num_outputs(calibrator), calibrator.affine()
    if affine is None:
        raise InputError(
            f"`linear` cannot take up {calibrator.name} as it was fitted, which is no affine map of logits; "
            "use CalibratedModel(model, calibrator), which keeps it as a module."
        )
    if linear.out_features != count:
        raise InputError(
            f"`linear` must have {count} output{'s' if count > 1 else ''}, which {calibrator.name} was "
            f"fitted on; got {linear.out_features}."
        )
    old = linear.weight.detach()
    weight, bias = (part.to(device=old.device, dtype=torch.float64) for part in affine)
    old_bias = dict(linear.named_parameters(recurse=False)).get("bias")
    if old_bias is not None:
        bias = weight @ old_bias.detach().to(torch.float64) + bias
    has_bias = old_bias is not None or bool(bias.any())
    # Made without memory, so that no random numbers are drawn for weights that are replaced.
    empty = nn.Linear(linear.in_features, count, bias=has_bias, device="meta", dtype=old.dtype)
    folded = empty.to_empty(device=old.device)
    with torch.no_grad():
        folded.weight.copy_(weight @ old.to(torch.float64))
        if has_bias:
            folded.bias.copy_(bias)
    return folded.requires_grad_(linear.weight.requires_grad).train(linear.training)
