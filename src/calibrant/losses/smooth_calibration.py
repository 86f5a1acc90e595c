"""Smooth calibration error of the batch as a penalty on cross-entropy."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from calibrant._math.errors import DerivativeError
from calibrant._math.shapes import Float, Integer
from calibrant.losses._confidence import confidence_loss, right_and_counted
from calibrant.losses._module import BatchLossModule, properness
from calibrant.losses._rows import as_rows, check_mean, check_not_negative

__all__ = ["SmoothCalibrationLoss", "smooth_calibration_loss", "smooth_calibration_penalty"]


def smooth_calibration_penalty(
    confidences: Float[Tensor, " N"],
    outcomes: Float[Tensor, " N"],
    *,
    weights: Float[Tensor, " N"] | None = None,
) -> Float[Tensor, ""]:
    r"""Smooth calibration error, with the gradient from its witness.

    .. math:: \mathrm{smCE} = \max_w \frac1N \sum_i w(c_i)(y_i - c_i)
              \quad\text{over } w: [0, 1] \to [-1, 1],\ |w(a) - w(b)| \le |a - b|

    Args:
        confidences: Probabilities in ``[0, 1]``, shape ``(N,)``.
        outcomes: Outcomes, 0 or 1 or the probability of 1, shape ``(N,)``; no gradient.
        weights: Weights of the samples, shape ``(N,)``; no gradient.

    Returns:
        Scalar in ``[0, 1]``, of the type of ``confidences``.

    Note:
        Exact, not kernel-smoothed. Solved on the CPU in float64: on another device it waits. Differentiable
        once; the gradient is exact almost everywhere. O(N log N) time.

    References:
        Blasiok, Gopalan, Hu and Nakkiran, "A Unifying Theory of Distance from Calibration", STOC 2023.

    Example:
        >>> import torch
        >>> round(smooth_calibration_penalty(torch.tensor([0.75, 0.75]), torch.tensor([1.0, 0.0])).item(), 4)
        0.25
    """
    solve = _opaque if torch.compiler.is_compiling() else _Solved.apply
    return solve(confidences, outcomes, weights)[0]


def _solve(confidences: Tensor, outcomes: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Error and gradient: one solution of the programme gives both, as its witness is the derivative."""
    from calibrant._math.lipschitz import smooth_calibration_gradient  # compiled

    given = (confidences, outcomes, torch.ones_like(confidences) if weights is None else weights)
    scores, happened, shares = (each.detach().to("cpu", torch.float64).numpy() for each in given)
    if not shares.sum() > 0 or math.isnan(scores.sum()):
        return confidences.new_tensor(math.nan), torch.full_like(confidences, math.nan)
    value, gradient = smooth_calibration_gradient(scores, happened, shares)
    return confidences.new_full((), value), torch.from_numpy(gradient).to(confidences)


def _keep(ctx: Any, inputs: tuple[Tensor | None, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], inputs[0])


def _pull_back(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
    return grad_outputs[0] * _Once.apply(*ctx.saved_tensors), None, None


def _refuse(ctx: Any, *_: object) -> Any:
    del ctx
    raise DerivativeError(
        "the smooth calibration error is differentiable once: it has a gradient, but no Hessian. Measure the "
        "curvature of the loss it is added to."
    )


class _Once(torch.autograd.Function):
    """A gradient that refuses further differentiation, instead of passing for a constant."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, _confidences: Tensor) -> Tensor:
        return gradient.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None: ...

    backward = jvp = staticmethod(_refuse)


class _Solved(torch.autograd.Function):
    """Error and gradient, for autograd and the transforms of ``torch.func``."""

    @staticmethod
    def forward(confidences: Tensor, outcomes: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        return _solve(confidences, outcomes, weights)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor | None, ...], output: tuple[Tensor, Tensor]) -> None:
        _keep(ctx, inputs, output)
        ctx.save_for_forward(output[1])
        ctx.mark_non_differentiable(output[1])

    backward = staticmethod(_pull_back)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Tensor | None) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return (gradient * grad_inputs[0]).sum(), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *args: Tensor | None
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        each = [
            [arg] * info.batch_size if at is None or arg is None else arg.unbind(at)
            for arg, at in zip(args, in_dims, strict=True)
        ]
        values, gradients = zip(*map(_Solved.apply, *each), strict=True)
        return (torch.stack(values), torch.stack(gradients)), (0, 0)


@torch.library.custom_op("calibrant::smooth_calibration", mutates_args=())
def _opaque(confidences: Tensor, outcomes: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Hide the solver from ``torch.compile``, which would trace it."""
    return _solve(confidences, outcomes, weights)


@_opaque.register_fake
def _(confidences: Tensor, *_: Tensor | None) -> tuple[Tensor, Tensor]:
    return confidences.new_empty(()), torch.empty_like(confidences)


_opaque.register_autograd(_pull_back, setup_context=_keep)


@properness("cross-entropy plus a penalty that is zero at the truth: strictly proper")
def smooth_calibration_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    penalty: float = 1.0,
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean"] = "mean",
) -> Float[Tensor, ""]:
    r"""Cross-entropy plus the smooth calibration error of the top label.

    .. math:: L = \mathrm{CE} + \lambda\, \mathrm{smCE}\big(\max_k p_k,\ 1[\arg\max_k p_k = t]\big)

    with :math:`\lambda` = ``penalty``; see :func:`smooth_calibration_penalty`. Whether a prediction is right
    carries no gradient.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        penalty: Weight of the calibration error, not negative; 0 is cross-entropy.
        targets: Distributions over the classes in place of ``labels``; a prediction is then right with the
            probability of its class.
        weight: Weight of each class in the cross-entropy, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: ``"mean"`` only: the error is one of the batch.

    Returns:
        Scalar, not negative; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or an option is out of range.
        TypeError: If ``labels`` are not integers.

    Note:
        The one loss here that waits for the device: the error is solved on the CPU. Differentiable once.
        O(N C + N log N) time.

    Example:
        >>> import torch
        >>> from calibrant.losses import cross_entropy_loss
        >>> logits = torch.tensor([[0.75, 0.25], [0.75, 0.25]]).log()
        >>> labels = torch.tensor([0, 1])
        >>> round((smooth_calibration_loss(logits, labels) - cross_entropy_loss(logits, labels)).item(), 4)
        0.25
    """
    check_mean("the smooth calibration error", reduction)
    check_not_negative(penalty=penalty)
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    if penalty == 0:
        return rows.layout.finish(rows.cross_entropy())

    def plain(logits: Tensor) -> Tensor:
        seen = rows._replace(logits=logits)
        if rows.soft:
            confidences, predicted = torch.softmax(logits, -1).amax(-1), logits.argmax(-1, keepdim=True)
            right, counted = rows.labels.gather(-1, predicted).squeeze(-1), torch.ones_like(confidences)
        else:
            confidences, *seen_as = right_and_counted(seen)
            right, counted = (each.to(confidences.dtype) for each in seen_as)
        error = smooth_calibration_penalty(confidences, right, weights=counted)
        return seen.cross_entropy() + penalty * error

    return confidence_loss(rows, penalty, _solve, plain)


class SmoothCalibrationLoss(BatchLossModule, function=smooth_calibration_loss, check=check_not_negative):
    """:func:`smooth_calibration_loss` as a module."""

    penalty: float = 1.0
