"""Sharpness-aware minimisation: descend along the gradient at the worst nearby point."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from calibrant._math.errors import InputError
from calibrant.curvature.differentiation import wide


class SAM:
    r"""Sharpness-aware minimisation around any optimiser.

    .. math:: w \leftarrow \text{optimiser's step with } \nabla L(w + \epsilon), \qquad
              \epsilon = \rho\, \nabla L(w) / \|\nabla L(w)\|_2

    over all parameters of the optimiser that have a gradient. Both passes see the same batch, the same random
    numbers (dropout's masks) and the same buffers; afterwards the buffers, such as batch normalisation's
    running statistics, are those that the first pass left. Weight decay and momentum act at *w*, as the
    optimiser does them. With ``rho=0`` a step is that of the optimiser alone, to the bit.

    Args:
        model: The network, for its buffers.
        optimiser: Any optimiser of its parameters; its learning rate may be scheduled as usual.
        rho: Length of the step to the worst point; 0.05 in the paper.

    Raises:
        InputError: If ``rho`` is negative or not finite.

    Note:
        A step costs two passes forward and backward. With ``DistributedDataParallel`` the first gradient is
        that of all processes together, so that several do what one does; the paper lets each process climb
        along its own. Not for scaled gradients (``GradScaler``).

    References:
        Foret, Kleiner, Mobahi and Neyshabur, "Sharpness-Aware Minimization for Efficiently Improving
        Generalization", ICLR 2021, algorithm 1.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from calibrant.curvature import SAM
        >>> model = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.ones_(model.weight)
        >>> sam = SAM(model, torch.optim.SGD(model.parameters(), lr=0.1), rho=0.5)
        >>> loss = sam.step(lambda: model(torch.ones(1, 1)).square().sum())
        >>> loss.item(), round(model.weight.item(), 4)  # 1 - 0.1 * 2 * (1 + 0.5)
        (1.0, 0.7)
    """

    def __init__(self, model: nn.Module, optimiser: Optimizer, *, rho: float = 0.05) -> None:
        if not 0 <= rho < math.inf:
            raise InputError(f"`rho` must be finite and not negative; got {rho}.")
        self.model, self.optimiser, self.rho = model, optimiser, rho

    def step(self, loss: Callable[[], Tensor]) -> Tensor:
        """Make one whole step, then clear the gradients.

        Args:
            loss: Runs the network on the batch and returns the loss; called twice.

        Returns:
            The loss before the step, detached.
        """

        def backward() -> Tensor:
            value = loss()
            value.backward()
            return value

        first = self.gradients(backward)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return first

    def gradients(self, backward: Callable[[], Tensor]) -> Tensor:
        """Set the gradient at the worst nearby point, for a loop that clips and steps by itself.

        Args:
            backward: Runs the network on the batch, calls ``backward`` on the loss and returns it; called
                twice.

        Returns:
            The loss before the step, detached.
        """
        before = _buffers(self.model)
        gpus = {value.device for value in self.model.parameters() if value.device.type == "cuda"}
        self.optimiser.zero_grad()
        with torch.random.fork_rng(gpus), torch.enable_grad():  # the second pass draws the same numbers
            first = backward().detach()
        after = _buffers(self.model)
        try:
            with self._climbed(), torch.enable_grad():
                self.optimiser.zero_grad()
                _put_buffers(self.model, before)
                backward()
        finally:
            _put_buffers(self.model, after)
        return first

    @contextmanager
    def _climbed(self) -> Generator[None]:
        """Move to the worst nearby point; afterwards restore the exact values."""
        found = [value for group in self.optimiser.param_groups for value in group["params"]]
        values: list[Tensor] = [value for value in found if value.grad is not None]
        with torch.no_grad():
            kept = [value.clone() for value in values]
            slopes = [value.grad for value in values if value.grad is not None]
            if slopes:
                scale = self.rho / _length(slopes).clamp(min=1e-12)
                for value, slope in zip(values, slopes, strict=True):
                    value.add_((slope * scale.to(slope.device)).to(value.dtype))
        try:
            yield
        finally:
            with torch.no_grad():
                for value, old in zip(values, kept, strict=True):
                    value.copy_(old)


def _length(tensors: list[Tensor]) -> Tensor:
    place, dtype = tensors[0].device, wide(tensors[0])
    each = [torch.linalg.vector_norm(tensor, dtype=dtype).to(place) for tensor in tensors]
    return torch.linalg.vector_norm(torch.stack(each))


def _buffers(model: nn.Module) -> list[Tensor]:
    return [buffer.detach().clone() for buffer in model.buffers()]


@torch.no_grad()
def _put_buffers(model: nn.Module, saved: list[Tensor]) -> None:
    for buffer, value in zip(model.buffers(), saved, strict=True):
        buffer.copy_(value)
