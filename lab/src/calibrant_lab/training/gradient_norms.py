"""The gradient of the loss with respect to the last layer, for every sample of a split."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.models import last_linear
from calibrant_lab.training.inference import Inference


def last_layer_gradient_norms(inference: Inference, loss: nn.Module, name: str) -> Float[Tensor, " N"] | None:
    """Norm of each sample's gradient of the loss by the last layer; None if that layer is not linear.

    It is the product of two norms, of the gradient by the logits and of the layer's input (with a one
    appended for the bias), so no sample needs a backward pass of its own.
    """
    layer = last_linear(inference.model)
    seen: dict[str, Tensor] = {}
    if layer is None:
        return None
    bias = float("bias" in dict(layer.named_parameters()))

    def look(_layer: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
        seen["input"], seen["output"] = given[0], made

    def norms_of(inputs: Tensor, labels: Tensor) -> Tensor:
        logits = inference.run(inputs)
        if seen["output"].shape != logits.shape or not torch.equal(seen["output"].to(logits), logits):
            return torch.full((len(labels), 1), math.nan, device=logits.device)
        leaf = logits.detach().requires_grad_()
        (slopes,) = torch.autograd.grad(loss(leaf, labels) * len(labels), leaf)
        squares = seen["input"].double().square().sum(dim=1) + bias
        return (slopes.double().norm(dim=1) * squares.sqrt())[:, None].float()

    handle = layer.register_forward_hook(look)
    try:
        norms = inference.over(name, norms_of, width=1)[:, 0]
    finally:
        handle.remove()
    return None if bool(norms.isnan().any()) else norms
