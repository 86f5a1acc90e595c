"""The smooth calibration error of the batch as a penalty on cross-entropy."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from calibrant._math.errors import DerivativeError
from calibrant._math.shapes import Float, Integer
from calibrant.losses._module import BatchLossModule, properness
from calibrant.losses._rows import as_labelled_rows, check_mean, check_not_negative

__all__ = ["SmoothCalibrationLoss", "smooth_calibration_loss", "smooth_calibration_penalty"]


def smooth_calibration_penalty(
    confidences: Float[Tensor, " N"],
    outcomes: Float[Tensor, " N"],
    *,
    weights: Float[Tensor, " N"] | None = None,
) -> Float[Tensor, ""]:
    r"""Smooth calibration error, with the gradient that its witness gives.

    .. math:: \mathrm{smCE} = \max_w \frac1N \sum_i w(c_i)(y_i - c_i)
              \quad\text{over } w: [0, 1] \to [-1, 1],\ |w(a) - w(b)| \le |a - b|

    Args:
        confidences: Probabilities in ``[0, 1]``, shape ``(N,)``.
        outcomes: What happened, 0 or 1, shape ``(N,)``; no gradient.
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
    return _WitnessGradient.apply(confidences, outcomes, weights)


class _WitnessGradient(torch.autograd.Function):
    """The programme is solved once: its witness and multipliers are the derivative."""

    @staticmethod
    def forward(ctx: Any, confidences: Tensor, outcomes: Tensor, weights: Tensor | None) -> Tensor:
        from calibrant._math.lipschitz import smooth_calibration_gradient  # compiled

        scores = confidences.detach().to("cpu", torch.float64)
        shares = torch.ones_like(scores) if weights is None else weights.detach().to(scores)
        if shares.sum() > 0 and not scores.isnan().any():
            solved = smooth_calibration_gradient(
                scores.numpy(), outcomes.detach().to(scores).numpy(), shares.numpy()
            )
            value, gradient = solved.value, torch.from_numpy(solved.gradient)
        else:
            value, gradient = math.nan, torch.full_like(scores, math.nan)
        ctx.save_for_backward(gradient.to(confidences), confidences)
        return confidences.new_tensor(value)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grad_outputs
        gradient, confidences = ctx.saved_tensors
        if torch.is_grad_enabled():
            # It must not pass for a constant: differentiating it calls the hook.
            link = 0 * confidences
            link.register_hook(_refuse)
            gradient = gradient + link
        return grad * gradient, None, None


def _refuse(_: Tensor) -> None:
    raise DerivativeError(
        "the smooth calibration error is differentiable once: it has a gradient, but no Hessian. Measure the "
        "curvature of the loss it is added to."
    )


@properness("cross-entropy plus a penalty that is zero at the truth: strictly proper")
def smooth_calibration_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""],
    *,
    penalty: float = 1.0,
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
        weight: Weight of each class in the cross-entropy, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: ``"mean"`` only: the error is one of the batch.

    Returns:
        Scalar, not negative; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or an option is out of range.
        TypeError: If ``labels`` are not integers.

    Note:
        The one loss here that waits for the device: the error is solved on the CPU. Differentiable once, not
        under the transforms of ``torch.func``. O(N C + N log N) time.

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
    rows = as_labelled_rows(logits, labels, weight, ignore_index, reduction)
    entropy = rows.cross_entropy()
    if penalty == 0:
        return rows.layout.finish(entropy)
    confidences = torch.softmax(rows.logits, -1).amax(-1).masked_fill(rows.ignored(), 0)
    right = (rows.logits.argmax(-1) == rows.labels).to(confidences.dtype)
    counted = (~rows.ignored()).to(confidences.dtype)
    error = smooth_calibration_penalty(confidences, right, weights=counted)
    return rows.layout.finish(entropy + penalty * error)


class SmoothCalibrationLoss(BatchLossModule, function=smooth_calibration_loss, check=check_not_negative):
    """Module of :func:`smooth_calibration_loss`."""

    penalty: float = 1.0
