"""A loss with its gradient in closed form, and the plain form for the remaining cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Pull: TypeAlias = Callable[[Tensor], Tensor]
"""From the gradient of the loss to that of the logits; may use up what the forward pass left: called once."""
Closed: TypeAlias = Callable[[Tensor], "tuple[Tensor, Pull]"]
Plain: TypeAlias = Callable[[Tensor], Tensor]


BLOCK = 1 << 16
"""Numbers of a block on a CPU: small enough for the cache, large enough to pay for the calls."""

FEW = 1 << 13
"""Size up to which operations on a CPU take no longer than their calls."""


def by_closed_form(logits: Tensor, closed: Closed, plain: Plain) -> Tensor:
    """Loss of the logits; by ``plain`` if compiled, transformed or differentiated twice.

    No form may hold another differentiated tensor. ``closed`` gives the loss and its gradient's pull-back,
    ``plain`` the loss by operations that are differentiable any number of times.
    """
    if torch.compiler.is_compiling():
        return plain(logits)
    try:
        return _ClosedForm.apply(logits, closed, plain)
    except (RuntimeError, IndexError):
        # Transforms of torch.func and forward-mode differentiation take no closed form; the plain form also
        # repeats the error if other arguments caused it.
        return plain(logits)


def is_traced() -> bool:
    """Return True while a tracer records operations, which would take values for constants."""
    return torch._C._len_torch_dispatch_stack() > 0  # pyright: ignore[reportPrivateUsage]


def can_look(*tensors: Tensor | None) -> bool:
    """Return True if all values can be read: on the CPU, and without a tracer."""
    if torch.compiler.is_compiling() or is_traced():
        return False
    return all(each is None or each.is_cpu for each in tensors)


def scaled(gradient: Tensor, grad: Tensor) -> Tensor:
    """Gradient times the loss's own gradient, in place; the factor is nearly always one."""
    try:
        if grad.ndim == 0 and can_look(grad) and grad.item() == 1:
            return gradient
        return gradient.mul_(grad)
    except RuntimeError:  # many gradients at once (is_grads_batched) do not fit into its place
        return gradient * grad


class _ClosedForm(torch.autograd.Function):
    """A second backward pass recomputes the values that the first one overwrote.

    If the gradient is differentiated, the plain form takes over.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, closed: Closed, plain: Plain) -> Tensor:
        loss, ctx.pull = closed(logits)
        ctx.save_for_backward(logits)
        ctx.forms = closed, plain
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (logits,), (closed, plain) = grad_outputs, ctx.saved_tensors, ctx.forms
        if torch.is_grad_enabled():
            return torch.autograd.grad(plain(logits), logits, grad, create_graph=True)[0], None, None
        pull: Pull = ctx.pull or closed(logits)[1]
        ctx.pull = None
        return pull(grad), None, None
