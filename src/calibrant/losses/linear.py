r"""Losses of the last layer of a language model, without the logits of all tokens at once.

With T tokens, width H and V words the logits are T V numbers, and a loss keeps another T V for its gradient.
With V = 128 256 that is far more than the network. Here the layer belongs to the loss. A chunk of
tokens goes through :math:`z = h W^\top`, the loss and its gradient :math:`\partial \ell / \partial z` before
the next one begins,

.. math:: \frac{\partial L}{\partial h} = \frac{\partial \ell}{\partial z} W , \qquad
          \frac{\partial L}{\partial W} = \sum_\text{chunks} \frac{\partial \ell}{\partial z}^{\!\top} h ,

so that three products of matrices are computed, as without chunks, and only a chunk's logits are ever held.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from calibrant._math.checks import check_at_least, check_choice
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Integer
from calibrant._math.simplex import working_dtype
from calibrant.losses._module import properness
from calibrant.losses._rows import (
    Reduction,
    RowLoss,
    check_gamma,
    check_is_tensor,
    check_reduction,
    weights_of,
)
from calibrant.losses.cross_entropy import cross_entropy_loss
from calibrant.losses.focal import focal_loss
from calibrant.losses.sample_focal import sample_focal_loss

__all__ = ["linear_focal_loss", "linear_loss"]

Kernel: TypeAlias = Literal["torch", "triton"]

_CHUNK = 1 << 25  # logits; 128 MiB in float32
_OF_TRUE_CLASS = (cross_entropy_loss, focal_loss, sample_focal_loss)
"""Losses whose value depends on the probability of the true class alone."""


@properness("proper for γ = 0 only; elicits the inverse focal map, which keeps the order")
def linear_focal_loss(
    hidden: Float[Tensor, "*N H"],
    weight: Float[Tensor, "V H"],
    labels: Integer[Tensor, " *N"],
    *,
    gamma: float = 3.0,
    bias: Float[Tensor, " V"] | None = None,
    class_weight: Float[Tensor, " V"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    chunk_rows: int | None = None,
    kernel: Kernel = "torch",
) -> Float[Tensor, ""] | Float[Tensor, " *N"]:
    r"""Focal loss of ``hidden @ weight.T + bias``, with only one chunk of rows in memory.

    .. math:: \ell = -(1 - p_t)^\gamma \log p_t, \qquad p = \mathrm{softmax}(W h + b)

    Equals ``focal_loss(functional.linear(hidden, weight, bias), labels)`` to rounding, gradients too.

    Args:
        hidden: Input of the last layer, shape ``(N, H)`` or ``(..., H)``.
        weight: Weights of the last layer, shape ``(V, H)``, V the number of classes.
        labels: True classes, integers of shape ``(N,)`` or ``(...)``.
        gamma: Exponent, greater than -1; 0 is cross-entropy.
        bias: Bias of the last layer, shape ``(V,)``.
        class_weight: Weight of each class in the loss, shape ``(V,)``.
        ignore_index: Label of rows that do not count; on a CPU they cost nothing.
        reduction: See :func:`focal_loss`.
        chunk_rows: Rows at a time; by default as many as have 2^25 logits.
        kernel: ``"torch"``, on any device; or ``"triton"``, on a GPU (see :func:`linear_loss`).

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; types as in :func:`focal_loss`.

    Raises:
        InputError: If shapes, types or devices disagree, or ``gamma`` is not greater than -1.
        TypeError: If an argument is not a tensor, or ``labels`` are not integers.
        IndexError: If a label is that of no class.

    Note:
        See :func:`linear_loss` for time and memory.

    References:
        Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024 (gradients with the loss,
        chunk by chunk, for cross-entropy).

    Example:
        >>> import torch
        >>> hidden, weight = torch.eye(2), torch.tensor([[0.8, 0.5], [0.2, 0.5]]).log()
        >>> round(linear_focal_loss(hidden[:1], weight, torch.tensor([0]), gamma=2).item(), 6)
        0.008926
    """
    check_gamma(gamma)
    return linear_loss(
        hidden,
        weight,
        labels,
        loss=partial(focal_loss, gamma=gamma),
        bias=bias,
        class_weight=class_weight,
        ignore_index=ignore_index,
        reduction=reduction,
        chunk_rows=chunk_rows,
        kernel=kernel,
    )


@properness("as the loss that it is given")
def linear_loss(
    hidden: Float[Tensor, "*N H"],
    weight: Float[Tensor, "V H"],
    labels: Integer[Tensor, " *N"],
    *,
    loss: RowLoss,
    bias: Float[Tensor, " V"] | None = None,
    class_weight: Float[Tensor, " V"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    chunk_rows: int | None = None,
    kernel: Kernel = "torch",
) -> Float[Tensor, ""] | Float[Tensor, " *N"]:
    """Any row-wise loss of ``hidden @ weight.T + bias``, with only one chunk of rows in memory.

    Args:
        hidden: Input of the last layer, shape ``(N, H)`` or ``(..., H)``.
        weight: Weights of the last layer, shape ``(V, H)``, V the number of classes.
        labels: True classes, integers of shape ``(N,)`` or ``(...)``.
        loss: A function of this package with a value per row, such as :func:`cross_entropy_loss`,
            :func:`sample_focal_loss`, or ``functools.partial(dual_focal_loss, gamma=3)``.
        bias: Bias of the last layer, shape ``(V,)``.
        class_weight: Weight of each class in the loss, shape ``(V,)``.
        ignore_index: Label of rows that do not count; on a CPU they cost nothing.
        reduction: ``"mean"`` divides by the weights of the rows that count, ``"sum"`` adds up, ``"none"``
            gives one value per row, 0 where it does not count.
        chunk_rows: Rows at a time; by default as many as have 2^25 logits.
        kernel: ``"torch"``, on any device; or ``"triton"``, on a GPU where Triton is installed:
            cross-entropy, focal and sample focal losses then take two passes over a chunk's logits in place
            of a dozen. Its tests have passed on one kind of GPU (benchmarks/README.md has the speed), else on
            a CPU by Triton's interpreter.

    Returns:
        Scalar, or the shape of ``labels`` for ``"none"``; types as those of ``loss``.

    Raises:
        InputError: If shapes, types or devices disagree, or ``loss`` is one of the whole batch.
        TypeError: If an argument is not a tensor, or ``labels`` are not integers.
        IndexError: If a label is that of no class.

    Note:
        Memory besides the arguments: some chunks of logits and, from the forward pass on, the gradients.
        Time: three products of matrices, all in the forward pass; with ``reduction="none"``, or when backward
        is called a second time, the logits are computed again, a fourth one. Gradients of ``weight`` are
        added up in float32 where it is float16 or bfloat16. Gradients of gradients hold all logits; the
        transforms of ``torch.func`` are not supported, and ``torch.compile`` leaves the loss as it is.

    Example:
        >>> import torch
        >>> from calibrant.losses import cross_entropy_loss
        >>> hidden, weight = torch.randn(6, 4), torch.randn(50, 4)
        >>> labels = torch.randint(0, 50, (6,))
        >>> whole = cross_entropy_loss(hidden @ weight.T, labels)
        >>> chunks = linear_loss(hidden, weight, labels, loss=cross_entropy_loss, chunk_rows=2)
        >>> torch.allclose(whole, chunks)
        True
    """
    _check_layer(hidden, weight, labels, bias, class_weight)
    _check_row_loss(loss, ignore_index)
    check_reduction(reduction)
    check_choice("kernel", kernel, ("torch", "triton"))
    if kernel == "triton":
        _check_fused(loss, hidden.device)
    if chunk_rows is not None:
        check_at_least("chunk_rows", chunk_rows, 1)
    plan = _Plan(
        loss=loss,
        weight=class_weight,
        ignore_index=ignore_index,
        each=reduction == "none",
        chunk_rows=chunk_rows or max(1, _CHUNK // weight.shape[0]),
        fused=kernel == "triton",
    )
    rows, classes = hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1)
    if reduction != "none" and labels.device.type == "cpu":  # elsewhere reading would make the device wait
        kept = (classes != ignore_index).nonzero().squeeze(1)
        if len(kept) < len(classes):
            rows, classes = rows[kept], classes[kept]
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        lower = torch.get_autocast_dtype(device)
        rows, weight = rows.to(lower), weight.to(lower)
        bias = None if bias is None else bias.to(lower)
        without: Any = torch.autocast(device, enabled=False)
        answered = torch.float32
    else:
        without, answered = nullcontext(), hidden.dtype
    with without:
        values: Tensor = _Chunked.apply(rows, weight, bias, classes, plan)
    if reduction == "none":
        return values.reshape(labels.shape).to(answered)
    if reduction == "mean":
        wide = None if class_weight is None else class_weight.to(values.dtype)
        total = weights_of(classes.long(), wide, ignore_index, values.dtype).sum()
        # An empty mean is NaN, but its gradient is zero, not the quotient's infinity times the sum's zero.
        values = torch.where(total == 0, torch.nan, values / torch.where(total == 0, 1, total))
    return values.to(answered)


def _check_layer(
    hidden: Tensor, weight: Tensor, labels: Tensor, bias: Tensor | None, class_weight: Tensor | None
) -> None:
    floating = {"hidden": hidden, "weight": weight, "bias": bias, "class_weight": class_weight}
    given = {name: value for name, value in floating.items() if value is not None}
    for name, value in (*given.items(), ("labels", labels)):
        check_is_tensor(value, name)
        if name != "labels" and not value.is_floating_point():
            raise TypeError(f"`{name}` must be floating-point; got {value.dtype}.")
        if value.device != hidden.device:
            raise InputError(
                f"`{name}` must be on the device of `hidden`, {hidden.device}; got {value.device}."
            )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"`labels` must be integers, one class per row; got {labels.dtype}.")
    if weight.ndim != 2 or len(weight) < 2:
        raise InputError(
            f"`weight` must have shape (V, H) with at least two classes; got {tuple(weight.shape)}."
        )
    _check_shape("hidden", hidden, (*hidden.shape[:-1], weight.shape[1]), "weight", weight)
    _check_shape("labels", labels, hidden.shape[:-1], "hidden", hidden)
    for name in given.keys() & {"bias", "class_weight"}:
        _check_shape(name, given[name], weight.shape[:1], "weight", weight)
    if not torch.is_autocast_enabled(hidden.device.type):
        for name in given.keys() & {"bias", "weight"}:
            if given[name].dtype != hidden.dtype:
                raise InputError(
                    f"`{name}` must have the type of `hidden`, {hidden.dtype}; got {given[name].dtype}."
                )


def _check_shape(name: str, value: Tensor, shape: Sequence[int], other_name: str, other: Tensor) -> None:
    if value.shape != tuple(shape):
        raise InputError(
            f"`{name}` must have shape {tuple(shape)} to go with `{other_name}` of shape "
            f"{tuple(other.shape)}; got {tuple(value.shape)}."
        )


def _check_row_loss(loss: RowLoss, ignore_index: int) -> None:
    row, label = torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)
    try:
        loss(row, label, weight=None, ignore_index=ignore_index, reduction="sum")
    except (TypeError, ValueError) as error:
        raise InputError(
            "`loss` must be a function with a value per row, such as `calibrant.losses.focal_loss`, with "
            f"settings given by functools.partial; got one that says: {error}"
        ) from error


class _Plan(NamedTuple):
    loss: RowLoss
    weight: Float[Tensor, " V"] | None  # of each class
    ignore_index: int
    each: bool  # a value per row, not their sum
    chunk_rows: int
    fused: bool

    def values(self, logits: Float[Tensor, "R V"], labels: Integer[Tensor, " R"]) -> Tensor:
        if self.fused and not logits.requires_grad:
            return self._fused(logits, labels, None, slope=False)
        wide, how = logits.to(working_dtype(logits.dtype)), "none" if self.each else "sum"
        return self.loss(wide, labels, weight=self.weight, ignore_index=self.ignore_index, reduction=how)

    def with_slope(
        self, logits: Float[Tensor, "R V"], labels: Integer[Tensor, " R"], outer: Float[Tensor, " R"] | None
    ) -> tuple[Tensor, Float[Tensor, "R V"]]:
        """Values, or their sum, and its gradient, weighted by ``outer``; the logits are overwritten."""
        if self.fused:
            return self._fused(logits, labels, outer, slope=True), logits
        with torch.enable_grad():
            value = self.values(logits.requires_grad_(), labels)
            (slope,) = torch.autograd.grad(value, logits, outer)
        return value.detach(), slope

    def _fused(self, *of: Any, slope: bool) -> Tensor:
        found = _fused_values(self.loss, *of, weight=self.weight, ignore_index=self.ignore_index, slope=slope)
        return found if self.each else found.sum()


_Layer: TypeAlias = tuple[Tensor, Tensor, Tensor | None]  # hidden, weight, bias
_Gradients: TypeAlias = list[Tensor | None]


class _Chunked(torch.autograd.Function):
    """Values of all rows, or their sum; the gradient of the sum is computed with it."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "R H"],
        weight: Float[Tensor, "V H"],
        bias: Float[Tensor, " V"] | None,
        labels: Integer[Tensor, " R"],
        plan: _Plan,
    ) -> Tensor:
        layer = hidden, weight, bias
        wanted: tuple[bool, ...] = ctx.needs_input_grad[:3]
        ctx.save_for_backward(hidden, weight, bias, labels)
        ctx.plan, ctx.gradients = plan, None
        if any(wanted) and not plan.each:
            values, ctx.gradients = _with_gradients(layer, labels, plan, wanted)
            return values
        found = [
            plan.values(functional.linear(hidden[part], weight, bias), labels[part])
            for part in _parts(hidden, plan)
        ]
        return torch.cat(found) if plan.each else torch.stack(found).sum()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grad_outputs
        *layer, labels = ctx.saved_tensors
        wanted: tuple[bool, ...] = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():
            return (*_differentiable(tuple(layer), labels, ctx.plan, wanted, grad), None, None)
        gradients: _Gradients | None = ctx.gradients
        ctx.gradients = None
        if gradients is None:
            upstream = grad if ctx.plan.each else None
            _, gradients = _with_gradients(tuple(layer), labels, ctx.plan, wanted, upstream)
        typed = [
            None if found is None else (found if ctx.plan.each else found.mul_(grad)).to(of.dtype)
            for found, of in zip(gradients, layer, strict=True)
        ]
        return (*typed, None, None)


def _parts(hidden: Float[Tensor, "R H"], plan: _Plan) -> list[slice]:
    """Rows of each chunk; no rows are one chunk."""
    starts = range(0, max(1, len(hidden)), plan.chunk_rows)
    return [slice(start, start + plan.chunk_rows) for start in starts]


def _with_gradients(
    layer: _Layer,
    labels: Integer[Tensor, " R"],
    plan: _Plan,
    wanted: tuple[bool, ...],
    upstream: Float[Tensor, " R"] | None = None,
) -> tuple[Tensor, _Gradients]:
    """Values, and the gradients of their sum, weighted by ``upstream`` if given."""
    hidden, weight, bias = layer
    sums: _Gradients = [
        torch.zeros_like(each, dtype=working_dtype(each.dtype)) if want and each is not None else None
        for want, each in zip(wanted, layer, strict=True)
    ]
    for_hidden, for_weight, for_bias = sums
    values: list[Tensor] = []
    for part in _parts(hidden, plan):
        logits = functional.linear(hidden[part], weight, bias)
        value, slope = plan.with_slope(logits, labels[part], None if upstream is None else upstream[part])
        values.append(value)
        del logits
        if for_hidden is not None:
            for_hidden[part] = slope @ weight
        if for_weight is not None and for_weight.dtype == slope.dtype:
            for_weight.addmm_(slope.T, hidden[part])
        elif for_weight is not None:
            for_weight += slope.T @ hidden[part]
        if for_bias is not None:
            for_bias += slope.sum(0, dtype=for_bias.dtype)
        del slope  # before the next logits exist
    return torch.cat(values) if plan.each else torch.stack(values).sum(), sums


def _differentiable(
    layer: _Layer, labels: Integer[Tensor, " R"], plan: _Plan, wanted: tuple[bool, ...], grad: Tensor
) -> _Gradients:
    """Gradients as functions of the layer; keeps all logits in memory."""
    hidden, weight, bias = layer
    values = plan.values(functional.linear(hidden, weight, bias), labels)
    asked = [each for want, each in zip(wanted, layer, strict=True) if want and each is not None]
    found = iter(torch.autograd.grad(values, asked, grad, create_graph=True))
    return [
        next(found) if want and each is not None else None for want, each in zip(wanted, layer, strict=True)
    ]


def _check_fused(loss: Any, device: torch.device) -> None:
    if getattr(loss, "func", loss) not in _OF_TRUE_CLASS:
        names = ", ".join(each.__name__ for each in _OF_TRUE_CLASS)
        raise InputError(f"`kernel` must be 'torch' for this loss; 'triton' has {names}.")
    if find_spec("triton") is None:
        raise InputError("`kernel` must be 'torch' where Triton is not installed; `pip install triton`.")
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise InputError(f"`kernel` must be 'torch' on this device; 'triton' needs a GPU; got {device}.")


def _fused_values(
    loss: RowLoss,
    logits: Float[Tensor, "R V"],
    labels: Integer[Tensor, " R"],
    upstream: Float[Tensor, " R"] | None,
    *,
    weight: Float[Tensor, " V"] | None,
    ignore_index: int,
    slope: bool,
) -> Float[Tensor, " R"]:
    r"""One value per row; with ``slope`` the gradient of their sum, by ``upstream``, replaces the logits.

    ``weight`` is per class; labels outside the classes stop the device, as torch's do. One pass over a
    chunk's logits gives the loss and one its gradient, by Triton.

    A loss of :math:`p_t` alone is a function of two numbers of each row: :math:`z_t`, and
    :math:`m = \log \sum_{j \ne t} e^{z_j}` of the others. A kernel finds m; torch takes the loss of the
    two logits :math:`(z_t, m)`, and its slope :math:`f = \partial \ell / \partial m`; a second kernel writes

    .. math:: \frac{\partial \ell}{\partial z_j} = f e^{z_j - m} \; (j \ne t), \qquad
              \frac{\partial \ell}{\partial z_t} = -f

    in place of the logits. Nothing else has their size. The kernels' arithmetic is tested on a CPU, by
    Triton's interpreter (``TRITON_INTERPRET=1``), and they compile for compute capability 8.0 and 9.0.
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
