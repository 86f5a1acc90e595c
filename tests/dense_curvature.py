"""Curvature of a tiny network as dense matrices, written without the library."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.functional import hessian, jacobian


def flat_logits(model: nn.Module) -> tuple[Tensor, Callable[[Tensor, Tensor], Tensor]]:
    """The trained parameters as one vector, and logits as a function of it."""
    named = [(name, value) for name, value in model.named_parameters() if value.requires_grad]

    def logits(flat: Tensor, inputs: Tensor) -> Tensor:
        pieces = flat.split([value.numel() for _, value in named])
        state = {name: piece.view_as(value) for (name, value), piece in zip(named, pieces, strict=True)}
        return torch.func.functional_call(model, state, (inputs,))

    return torch.cat([value.detach().reshape(-1) for _, value in named]), logits


def dense_matrix(
    model: nn.Module,
    loss: Any,
    samples: tuple[Tensor, Tensor],
    form: str = "hessian",
    at: Tensor | None = None,
) -> Any:
    """The Hessian, or the Gauss-Newton matrix ``J^T (Hessian by the logits) J``; ``at`` keeps a graph."""
    flat, logits = flat_logits(model)
    inputs, labels = samples
    vector, graph = (flat, False) if at is None else (at, True)
    if form == "hessian":
        return hessian(lambda v: loss(logits(v, inputs), labels), vector, create_graph=graph)
    jac: Any = jacobian(lambda v: logits(v, inputs).reshape(-1), vector, create_graph=graph)
    place = logits(vector, inputs)
    place = place if graph else place.detach()
    bend: Any = hessian(lambda z: loss(z.view_as(place), labels), place.reshape(-1), create_graph=graph)
    return jac.T @ bend @ jac
