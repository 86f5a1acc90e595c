r"""One pass over a chunk's logits for the loss and one for its gradient, by Triton; not yet run on a GPU.

A loss of :math:`p_t` alone is a function of two numbers of each row: :math:`z_t`, and
:math:`m = \log \sum_{j \ne t} e^{z_j}` of the others. A kernel finds m; torch takes the loss of the
two logits :math:`(z_t, m)`, and its slope :math:`f = \partial \ell / \partial m`; a second kernel writes

.. math:: \frac{\partial \ell}{\partial z_j} = f e^{z_j - m} \; (j \ne t), \qquad
          \frac{\partial \ell}{\partial z_t} = -f

in place of the logits. Nothing else has their size. The kernels' arithmetic is tested on a CPU, by Triton's
interpreter (``TRITON_INTERPRET=1``), and they compile for compute capability 8.0 and 9.0.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Integer
from calibrant._math.simplex import working_dtype
from calibrant.losses._rows import RowLoss, weights_of
from calibrant.losses.cross_entropy import cross_entropy_loss
from calibrant.losses.focal import focal_loss
from calibrant.losses.sample_focal import sample_focal_loss

OF_TRUE_CLASS = (cross_entropy_loss, focal_loss, sample_focal_loss)
"""Losses whose value depends on the probability of the true class alone."""


def check_fused(loss: Any, device: torch.device) -> None:
    if getattr(loss, "func", loss) not in OF_TRUE_CLASS:
        names = ", ".join(each.__name__ for each in OF_TRUE_CLASS)
        raise InputError(f"`kernel` must be 'torch' for this loss; 'triton' has {names}.")
    if find_spec("triton") is None:
        raise InputError("`kernel` must be 'torch' where Triton is not installed; `pip install triton`.")
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise InputError(f"`kernel` must be 'torch' on this device; 'triton' needs a GPU; got {device}.")


def fused_values(
    loss: RowLoss,
    logits: Float[Tensor, "R V"],
    labels: Integer[Tensor, " R"],
    upstream: Float[Tensor, " R"] | None,
    *,
    weight: Float[Tensor, " V"] | None,
    ignore_index: int,
    slope: bool,
) -> Float[Tensor, " R"]:
    """One value per row; with ``slope`` the gradient of their sum, by ``upstream``, replaces the logits.

    ``weight`` is per class; labels outside the classes stop the device, as torch's do.
    """
    from calibrant.losses._triton_kernels import log_sums, slopes

    dtype = working_dtype(logits.dtype)
    place = labels.long().masked_fill(labels == ignore_index, 0)
    true = logits.gather(1, place[:, None]).squeeze(1).to(dtype)
    others = torch.empty_like(true)
    if len(logits):
        log_sums(logits, place, others)
    others.clamp_(min=torch.finfo(dtype).min)  # if no other class has any probability
    counted = weights_of(labels.long(), None if weight is None else weight.to(dtype), ignore_index, dtype)
    with torch.enable_grad():
        others.requires_grad_(slope)
        # The first of the two logits is the true class's: all labels are 0, and none is ignored here.
        pairs, first = torch.stack((true, others), 1), torch.zeros_like(place)
        values = loss(pairs, first, weight=None, ignore_index=-100, reduction="none")
    if slope and len(logits):
        outer = counted if upstream is None else counted * upstream
        (factor,) = torch.autograd.grad(values, others, outer)
        slopes(logits, place, others.detach(), factor.masked_fill(counted == 0, 0))
    # Filled, not multiplied by zero: an ignored row may hold NaN.
    return (values.detach() * counted).masked_fill(counted == 0, 0)
