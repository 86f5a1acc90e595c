r"""What focal loss's gradient implies: a penalty, a weight decay, and the curvature in the logit.

With :math:`R(p) = -p \log p / (1 - p)`, as in :mod:`calibrant.theory.gradients`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_logits
from calibrant._math.errors import InputError
from calibrant._math.focal_map import check_gamma
from calibrant._math.shapes import Float
from calibrant._math.simplex import back_to, working_dtype
from calibrant._math.true_class import see_true_class, softplus
from calibrant.theory.gradients_parts import check_probabilities, last_positive, ratio_of

__all__ = ["implied_penalty", "implied_weight_decay", "logit_convexity_threshold", "logit_curvature"]

# Log-odds from which on R is one to the last digit but for its first-order term.
_SURE = 30.0


def logit_curvature(p: ArrayLike | float, *, gamma: float) -> Float[Tensor, "*N"]:
    r"""Second derivative of focal loss in the log-odds of the true class.

    .. math:: p \, (1-p)^{\gamma + 1} \left( 1 + 2 \gamma + \gamma \log p + \gamma^2 R \right)

    Cross-entropy's is :math:`p (1-p)`. At a confident sample focal loss is flatter,
    :math:`(1 + \gamma)^2 (1-p)^{\gamma+1}`; at a small p it bends downwards: focal loss is convex in p but
    not in the logits (:func:`logit_convexity_threshold`).

    Args:
        p: Probability of the true class, in [0, 1]; a number or an array of any shape.
        gamma: Focal loss's exponent, greater than -1.

    Returns:
        The curvature in the shape and dtype of ``p`` (integers and numbers: float64), without gradients.

    Raises:
        InputError: If ``gamma`` is not greater than -1, or a value is not a probability.

    Note:
        At even odds it is larger than cross-entropy's for :math:`0 < \gamma < 4.26`: whether focal loss
        flattens depends on how sure the network is.

    Example:
        >>> logit_curvature([0.01, 0.5, 0.99], gamma=1)
        tensor([-0.0153,  0.3750,  0.0004], dtype=torch.float64)
    """
    probs = check_probabilities(p)
    check_gamma(gamma)
    wide = probs.to(working_dtype(probs.dtype))
    inside = (wide > 0) & (wide < 1)
    safe = torch.where(inside, wide, 0.5)
    bend = 1 + 2 * gamma + gamma * safe.log() + gamma**2 * ratio_of(safe)
    value = safe * ((gamma + 1) * (-safe).log1p()).exp() * bend
    return back_to(torch.where(inside, value, 0.0), probs.dtype)


def logit_convexity_threshold(*, gamma: float) -> float:
    r"""Probability of the true class below which focal loss is not convex in the logits.

    Args:
        gamma: Focal loss's exponent, greater than -1.

    Returns:
        The root of :math:`1 + 2 \gamma + \gamma \log p + \gamma^2 R = 0`; 0 for exponents that are not
        positive, for which there is none.

    Raises:
        InputError: If ``gamma`` is not greater than -1.

    Note:
        For :math:`\gamma = -a` between -1 and 0, :math:`R \ge 1 - L / 2` with :math:`L = -\log p` makes the
        bracket at least :math:`(1 - a)^2 + a L (1 - a / 2) > 0`.

    Example:
        >>> [round(logit_convexity_threshold(gamma=gamma), 4) for gamma in (0, 1, 3, 5)]
        [0.0, 0.0432, 0.0575, 0.0502]
    """
    check_gamma(gamma)
    if gamma <= 0:
        return 0.0

    def bend(p: float) -> float:
        return -(1 / gamma + 2 + math.log(p) + gamma * -p * math.log(p) / (1 - p))

    return last_positive(bend)


def implied_penalty(p: ArrayLike | float, *, gamma: float) -> Float[Tensor, "*N"]:
    r"""What focal loss adds to cross-entropy: :math:`\left( (1-p)^\gamma - 1 \right) (-\log p)`.

    Its gradient in the logits is :math:`g - 1` times cross-entropy's, so for positive exponents it has one
    minimum, at :math:`p_0` of :func:`gradient_threshold`: a sample's penalty is least where its true class
    has probability :math:`p_0`. Below, it helps cross-entropy push upwards; above, it pulls back. That is the
    regularisation that focal loss implies.

    Args:
        p: Probability of the true class, in [0, 1]; a number or an array of any shape.
        gamma: Focal loss's exponent, greater than -1.

    Returns:
        The penalty, for positive exponents not positive, in the shape and dtype of ``p`` (integers and
        numbers: float64), without gradients.

    Raises:
        InputError: If ``gamma`` is not greater than -1, or a value is not a probability.

    Example:
        >>> from calibrant.theory import gradient_threshold
        >>> implied_penalty([0.0, 0.25, gradient_threshold(gamma=1), 0.5, 1.0], gamma=1)
        tensor([ 0.0000, -0.3466, -0.3679, -0.3466,  0.0000], dtype=torch.float64)
    """
    probs = check_probabilities(p)
    check_gamma(gamma)
    wide = probs.to(working_dtype(probs.dtype))
    inside = (wide > 0) & (wide < 1)
    safe = torch.where(inside, wide, 0.5)
    value = (gamma * (-safe).log1p()).expm1() * -safe.log()
    return back_to(torch.where(inside, value, 0.0), probs.dtype)


def implied_weight_decay(
    logits: ArrayLike, labels: ArrayLike, *, gamma: float, weight_norm: float
) -> Float[Tensor, ""]:
    r"""Weight decay that would slow the last layer's growth as focal loss does, at one moment of training.

    Under gradient flow the squared norm of the last layer's weights W changes at the rate
    :math:`-2 \langle W, L' \rangle`, L' the gradient, where

    .. math:: \langle W, L' \rangle = \frac1N \sum_i g(p_{t_i}) \langle z_i, p_i - y_i \rangle

    if the logits z have no bias. Cross-entropy with the penalty :math:`\frac{\delta}{2} \|W\|^2` shares focal
    loss's rate for

    .. math::
        \delta = \frac{1}{N \|W\|^2} \sum_i \left( 1 - g(p_{t_i}) \right) \langle z_i, y_i - p_i \rangle .

    Args:
        logits: Scores ``(N, C)``, or log-odds of an event ``(N,)``, less the bias if there is one.
        labels: True classes ``(N,)``.
        gamma: Focal loss's exponent, greater than -1.
        weight_norm: Euclidean (Frobenius) norm of the layer's weights.

    Returns:
        Scalar float64. Negative where focal loss makes the weights grow faster than cross-entropy does.

    Raises:
        InputError: If shapes disagree, a value is not finite, ``gamma`` is not greater than -1, or
            ``weight_norm`` is not positive.

    Note:
        Samples that are already right count positive once their probability exceeds :math:`p_0`; samples that
        are confidently wrong push the weights down, focal loss less so (g small) or more so (g above 1).

    References:
        Mukhoti et al., "The Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks",
        2020, section 4, which argues the effect without a number.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
        >>> round(implied_weight_decay(logits, [0, 1, 1], gamma=1, weight_norm=1.5).item(), 4)
        0.0554
    """
    checked = check_logits(logits, labels)
    check_gamma(gamma)
    if not (math.isfinite(weight_norm) and weight_norm > 0):
        raise InputError(f"`weight_norm` must be positive; got {weight_norm}.")
    scores, target = checked.scores.double(), checked.target
    if checked.task == "binary":
        scores = torch.stack([torch.zeros_like(scores), scores], dim=1)
    log_odds = see_true_class(scores, target).log_odds
    probs = scores.softmax(-1)
    truth = torch.nn.functional.one_hot(target, scores.shape[-1]).to(probs)
    pull = (scores * (truth - probs)).sum(-1)
    return ((1 - _factor_of_log_odds(log_odds, gamma)) * pull).mean() / weight_norm**2


def _factor_of_log_odds(log_odds: Float[Tensor, " N"], gamma: float) -> Float[Tensor, " N"]:
    """The gradient factor, right also where the probability rounds to one."""
    near = log_odds.clamp(max=_SURE)
    ratio = torch.where(log_odds > _SURE, 1 - (-log_odds).exp() / 2, softplus(-near) * near.exp())
    return (-gamma * softplus(log_odds) + (gamma * ratio).log1p()).exp()
