"""A loss with its gradient in closed form, and the plain form where that does not reach."""

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
"""Numbers of which operations on a CPU take no longer than their calls."""


def by_closed_form(logits: Tensor, closed: Closed, plain: Plain) -> Tensor:
    """The loss of the logits; of ``plain`` where it is compiled, transformed or differentiated twice.

    Args:
        logits: What is differentiated; neither form may hold another tensor that is.
        closed: Gives the loss and how its gradient is pulled back.
        plain: Gives the loss by operations that can be differentiated any number of times.
    """
    if torch.compiler.is_compiling():
        return plain(logits)
    try:
        return _ClosedForm.apply(logits, closed, plain)
    except (RuntimeError, IndexError):
        # The transforms of torch.func and forward-mode differentiation take no closed form; they take the
        # plain one, which also repeats the complaint if other arguments are to blame.
        return plain(logits)


def is_traced() -> bool:
    """Whether someone follows the operations, and would take what is looked at for what always is."""
    return torch._C._len_torch_dispatch_stack() > 0  # pyright: ignore[reportPrivateUsage]


def can_look(*tensors: Tensor | None) -> bool:
    """Whether the values of all of them may be looked at: nothing waits for them, and nobody traces."""
    if torch.compiler.is_compiling() or is_traced():
        return False
    return all(each is None or each.is_cpu for each in tensors)


def scaled(gradient: Tensor, grad: Tensor) -> Tensor:
    """The gradient times that of the loss, in its place; nearly always times one."""
    try:
        if grad.ndim == 0 and can_look(grad) and grad.item() == 1:
            return gradient
        return gradient.mul_(grad)
    except RuntimeError:  # many gradients at once (is_grads_batched) do not fit into its place
        return gradient * grad


class _ClosedForm(torch.autograd.Function):
    """A second backward pass computes anew what the first one used up.

    Where the gradient is to be differentiated, the plain form takes over.
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


def times_rows(matrix: Tensor, factor: Tensor) -> Tensor:
    """The matrix with each row times its factor, in its place."""
    try:
        return matrix.mul_(factor)
    except RuntimeError:  # many gradients at once (is_grads_batched) do not fit into its place
        return matrix * factor
