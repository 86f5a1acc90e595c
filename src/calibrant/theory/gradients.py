r"""Gradient of focal loss against cross-entropy's: one factor, and its consequences.

For a logit z the gradient of focal loss is :math:`g(p_t, \gamma)` times that of cross-entropy, with

.. math:: g(p, \gamma) = (1-p)^\gamma (1 + \gamma R) , \qquad R(p) = \frac{-p \log p}{1 - p} \in [0, 1] .

**One turn, one crossing.** :math:`g'` has the sign of :math:`\gamma k(p)` with :math:`k = 1 - 2 M(p) - \gamma
p`, where :math:`M(p) = (1-p) / (-\log p)` is the logarithmic mean of p and 1. M is concave with slope 1/2 at
p = 1, so k falls from 1 to :math:`-(1 + \gamma)` for every :math:`\gamma > -1`. Therefore g starts at 1,
turns once, and crosses 1 once on its way to 0 (for negative exponents: to infinity).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import check_logits
from calibrant._math.errors import InputError
from calibrant._math.focal_map import check_gamma
from calibrant._math.shapes import Float
from calibrant._math.simplex import back_to, see_true_class, softplus, working_dtype
from calibrant.theory.bracket import bracket

__all__ = [
    "LambertBranches",
    "TurningPoint",
    "gradient_factor",
    "gradient_threshold",
    "gradient_turning_point",
    "implied_penalty",
    "implied_weight_decay",
    "lambert_branches",
    "logit_convexity_threshold",
    "logit_curvature",
]

# Log-odds above which R is one, apart from its first-order term.
_SURE = 30.0


class TurningPoint(NamedTuple):
    """Turning point of the gradient factor, and its value there."""

    probability: float
    factor: float


class LambertBranches(NamedTuple):
    """Values of the two real branches of Lambert's W in the formula for the exponent."""

    principal: float  # W_0
    lower: float  # W_-1


def gradient_factor(p: ArrayLike | float, *, gamma: float) -> Float[Tensor, "*N"]:
    r"""Ratio of focal loss's gradient to cross-entropy's.

    .. math::
        g(p, \gamma) = (1-p)^\gamma - \gamma \, p \, (1-p)^{\gamma-1} \log p , \qquad
        \frac{\partial\, \mathrm{FL}}{\partial z_j} = g(p_t, \gamma) \left( p_j - 1[j = t] \right)

    Args:
        p: Probability of the true class, in [0, 1]; a number or an array of any shape.
        gamma: Focal loss's exponent, greater than -1.

    Returns:
        The factor, not negative, in the shape and dtype of ``p`` (integers and numbers: float64), without
        gradients. At p = 1 it is 0 for positive exponents and infinite for negative ones.

    Raises:
        InputError: If ``gamma`` is not greater than -1, or a value is not a probability.

    Note:
        For positive exponents g rises from 1 to its turning point (:func:`gradient_turning_point`), is 1
        again at :func:`gradient_threshold`, and ends as :math:`(1 + \gamma)(1-p)^\gamma`. For
        :math:`\gamma \ge 7` little is left at even odds: g(0.5, 7) = 0.046.

    References:
        Mukhoti et al., "The Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks",
        2020, proposition 1.

    Example:
        >>> gradient_factor([0.0, 0.2, 0.5, 1.0], gamma=5)
        tensor([1.0000, 0.9869, 0.1396, 0.0000], dtype=torch.float64)
    """
    probs = _check_probabilities(p)
    check_gamma(gamma)
    wide = probs.to(working_dtype(probs.dtype))
    at_one = 1.0 if gamma == 0 else 0.0 if gamma > 0 else math.inf
    value = torch.where(wide < 1, (gamma * (-wide).log1p()).exp(), at_one) * (1 + gamma * _ratio_of(wide))
    return back_to(value, probs.dtype)


def gradient_turning_point(*, gamma: float) -> TurningPoint:
    r"""Maximum of the gradient factor (for negative exponents: minimum).

    Args:
        gamma: Focal loss's exponent, greater than -1. At 0, where g is 1 throughout, the limit.

    Returns:
        The probability and the factor there.

    Raises:
        InputError: If ``gamma`` is not greater than -1.

    Note:
        Up to here a class is pushed the harder the more probable it is; below it the focal calibration map
        lowers the top probability. The root of :math:`2 M(p) + \gamma p = 1`; for :math:`\gamma = 1` it is
        :math:`e^{-2}`.

    Example:
        >>> turn = gradient_turning_point(gamma=1)
        >>> round(turn.probability, 4), round(turn.factor, 4)
        (0.1353, 1.1353)
    """
    check_gamma(gamma)
    turn = _last_positive(lambda p: 1 - 2 * (1 - p) / -math.log(p) - gamma * p)
    return TurningPoint(turn, gradient_factor(turn, gamma=gamma).item())


def gradient_threshold(*, gamma: float) -> float:
    r"""Probability :math:`p_0` above which focal loss pushes less than cross-entropy, :math:`g(p_0) = 1`.

    The inverse function of :math:`\gamma^*(p_0)`. For negative exponents it lies above 1/2, and focal loss
    pushes more from there on.

    Args:
        gamma: Focal loss's exponent, greater than -1.

    Returns:
        The root of :math:`g(\cdot, \gamma) = 1` inside (0, 1); falls as ``gamma`` rises. At 0, where g is 1
        throughout, the limit 1/2.

    Raises:
        InputError: If ``gamma`` is not greater than -1.

    Note:
        Accurate to rounding. There is one root: see the head of this module.

    Example:
        >>> [round(gradient_threshold(gamma=gamma), 4) for gamma in (1, 2, 3, 5, 7)]
        [0.3679, 0.2976, 0.2526, 0.1968, 0.1629]
    """
    check_gamma(gamma)
    if gamma == 0:
        return 0.5

    def excess(p: float) -> float:  # log g over gamma: positive below the threshold, whatever gamma's sign
        return math.log1p(-p) + math.log1p(gamma * -p * math.log(p) / (1 - p)) / gamma

    return _last_positive(excess)


def lambert_branches(p0: float) -> LambertBranches:
    r"""Roots :math:`\gamma` of :math:`g(p_0, \gamma) = 1` from both real branches of Lambert's W.

    With :math:`a = 1 - p_0` and :math:`b = p_0 \log p_0`,

    .. math:: \gamma = \frac{a}{b} + \frac{1}{\log a} W\!\left( -\frac{a^{1 - a/b}}{b} \log a \right) .

    One of the two is always :math:`\gamma = 0`, where g is 1 for every p: the principal branch's below
    :math:`p_0 = 1/2`, the lower branch's above. The other is :math:`\gamma^*` below 1/2, and negative above.

    Args:
        p0: Probability of the true class, in (0, 1).

    Returns:
        Both roots; at 1/2 the argument of W is :math:`-1/e`, the branches meet, and both are 0.

    Raises:
        InputError: If ``p0`` is not inside (0, 1).

    Note:
        The reference takes the principal branch for one that gives negative exponents below 1/2; it gives
        zero. The formula loses half its digits as :math:`p_0` nears 1/2; :func:`gradient_threshold`, its
        inverse, does not.

    References:
        Mukhoti et al., "The Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks",
        2020, proposition 2.

    Example:
        >>> roots = lambert_branches(0.25)
        >>> round(roots.principal, 9) + 0.0, round(roots.lower, 9)
        (0.0, 3.070227102)
        >>> round(lambert_branches(0.75).principal, 3)
        -0.748
    """
    if not 0 < p0 < 1:
        raise InputError(f"`p0` must be inside (0, 1); got {p0}.")
    from scipy.special import lambertw

    ratio = -p0 * math.log(p0) / (1 - p0)
    kappa = -math.log1p(-p0) / ratio
    # Rounding may move W's argument to or past the branch point -1/e, where both branches are -1.
    roots = lambertw(-kappa * math.exp(-kappa), [0, -1])
    principal, lower = np.where(np.isnan(roots) | (roots.imag != 0), -1, roots.real).tolist()
    return LambertBranches(-(1 + principal / kappa) / ratio, -(1 + lower / kappa) / ratio)


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
    probs = _check_probabilities(p)
    check_gamma(gamma)
    wide = probs.to(working_dtype(probs.dtype))
    inside = (wide > 0) & (wide < 1)
    safe = torch.where(inside, wide, 0.5)
    bend = 1 + 2 * gamma + gamma * safe.log() + gamma**2 * _ratio_of(safe)
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

    return _last_positive(bend)


def implied_penalty(p: ArrayLike | float, *, gamma: float) -> Float[Tensor, "*N"]:
    r"""Difference of focal loss and cross-entropy: :math:`\left( (1-p)^\gamma - 1 \right) (-\log p)`.

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
    probs = _check_probabilities(p)
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
    """Gradient factor, accurate even if the probability rounds to one."""
    near = log_odds.clamp(max=_SURE)
    ratio = torch.where(log_odds > _SURE, 1 - (-log_odds).exp() / 2, softplus(-near) * near.exp())
    return (-gamma * softplus(log_odds) + (gamma * ratio).log1p()).exp()


def _check_probabilities(p: ArrayLike | float) -> Tensor:
    probs = (
        torch.tensor(p, dtype=torch.float64) if isinstance(p, float | int) else as_float_tensor(p, name="p")
    )
    if not bool(((probs >= 0) & (probs <= 1)).all()):
        bad = probs[~((probs >= 0) & (probs <= 1))].reshape(-1)[0].item()
        raise InputError(f"`p` must be between 0 and 1; got {bad:g}.")
    return probs


def _ratio_of(probs: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """R, with its limits 0 and 1 at the ends."""
    inside = (probs > 0) & (probs < 1)
    safe = torch.where(inside, probs, 0.5)
    return torch.where(inside, -safe * safe.log() / (1 - safe), (probs > 0).to(probs.dtype))


def _last_positive(function: Callable[[float], float]) -> float:
    """Root in (0, 1) of a function that is positive before it and negative after it, to the last digit."""
    low, high = bracket(lambda p: function(p) > 0, 0.0, 1.0)
    return high if low == 0 else low
