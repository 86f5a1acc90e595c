r"""Focal loss's gradient against cross-entropy's: one factor of the true class's probability.

For a logit z the gradient of focal loss is :math:`g(p_t, \gamma)` times that of cross-entropy, with

.. math:: g(p, \gamma) = (1-p)^\gamma (1 + \gamma R) , \qquad R(p) = \frac{-p \log p}{1 - p} \in [0, 1] .

**One turn, one crossing.** :math:`g'` has the sign of :math:`\gamma k(p)` with
:math:`k = 1 - 2 M(p) - \gamma p`, where :math:`M(p) = (1-p) / (-\log p)` is the logarithmic mean of p and 1.
M is concave with slope 1/2 at p = 1, so k falls from 1 to :math:`-(1 + \gamma)` for every
:math:`\gamma > -1`. Therefore g starts at 1, turns once, and crosses 1 once on its way to 0 (for negative
exponents: to infinity).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.errors import InputError
from calibrant._math.focal_map import check_gamma
from calibrant._math.lambert_w import lambert_w
from calibrant._math.shapes import Float
from calibrant._math.simplex import back_to, working_dtype
from calibrant.theory.gradients_parts import check_probabilities, last_positive, ratio_of

__all__ = [
    "LambertBranches",
    "TurningPoint",
    "gradient_factor",
    "gradient_threshold",
    "gradient_turning_point",
    "lambert_branches",
]


class TurningPoint(NamedTuple):
    """Where the gradient factor turns, and its value there."""

    probability: float
    factor: float


class LambertBranches(NamedTuple):
    """What the two real branches of Lambert's W give in the formula for the exponent."""

    principal: float  # W_0
    lower: float  # W_-1


def gradient_factor(p: ArrayLike | float, *, gamma: float) -> Float[Tensor, "*N"]:
    r"""By how much focal loss's gradient differs from cross-entropy's.

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
    probs = check_probabilities(p)
    check_gamma(gamma)
    wide = probs.to(working_dtype(probs.dtype))
    at_one = 1.0 if gamma == 0 else 0.0 if gamma > 0 else math.inf
    value = torch.where(wide < 1, (gamma * (-wide).log1p()).exp(), at_one) * (1 + gamma * ratio_of(wide))
    return back_to(value, probs.dtype)


def gradient_turning_point(*, gamma: float) -> TurningPoint:
    r"""Where the gradient factor is largest (for negative exponents: smallest).

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
    turn = last_positive(lambda p: 1 - 2 * (1 - p) / -math.log(p) - gamma * p)
    return TurningPoint(turn, gradient_factor(turn, gamma=gamma).item())


def gradient_threshold(*, gamma: float) -> float:
    r"""Probability :math:`p_0` from which on focal loss pushes less than cross-entropy, :math:`g(p_0) = 1`.

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

    return last_positive(excess)


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
    ratio = -p0 * math.log(p0) / (1 - p0)
    kappa = -math.log1p(-p0) / ratio
    # W's argument is never below -1/e but for rounding.
    argument = torch.tensor(max(-kappa * math.exp(-kappa), -math.exp(-1)), dtype=torch.float64)
    principal = lambert_w(argument, branch=0).item()
    lower = lambert_w(argument, branch=-1).item()
    return LambertBranches(-(1 + principal / kappa) / ratio, -(1 + lower / kappa) / ratio)
