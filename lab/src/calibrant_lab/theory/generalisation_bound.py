"""What a PAC-Bayes bound says of curvature: a price of flat and of sharp minima, in numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from calibrant._math.checks import check_at_least
from calibrant._math.errors import InputError

__all__ = ["PacBayesBound", "pac_bayes_bound"]


class PacBayesBound(NamedTuple):
    """A bound on the risk of noisy parameters, and what it is the sum of."""

    value: float
    risk: float  # at the parameters themselves, as given
    curvature_price: float  # what noise costs in risk and in divergence from the prior, by the curvatures
    distance_price: float  # for the distance from the prior's centre
    chance_price: float  # for the confidence and the number of samples
    spreads: tuple[float, ...]  # standard deviation of the best noise along each eigenvector


def pac_bayes_bound(
    curvatures: Sequence[float],
    *,
    risk: float,
    distance: float,
    prior_scale: float,
    num_samples: int,
    inverse_temperature: float | None = None,
    confidence: float = 0.95,
) -> PacBayesBound:
    r"""A PAC-Bayes bound for Gaussian noise around a minimum, with the best noise for its curvatures.

    With probability ``confidence`` over the samples, for every distribution Q of the parameters, a prior P
    and :math:`\lambda` chosen beforehand, and a loss in [0, 1],

    .. math::
        \mathbb E_Q R \le \mathbb E_Q \hat R + \frac{\mathrm{KL}(Q \| P) + \log(1/\delta)}{\lambda}
        + \frac{\lambda}{8 n} .

    The Q that makes the right side least is the Gibbs, or Maxwell-Boltzmann, distribution
    :math:`\propto P e^{-\lambda \hat R}`: the risk is the energy, :math:`1 / \lambda` the temperature. With a
    Gaussian prior of scale s and the risk's quadratic expansion of curvatures :math:`h_i` it is Gaussian,
    with variances :math:`1 / (1/s^2 + \lambda h_i)`, and

    .. math::
        \mathbb E_Q \hat R + \frac{\mathrm{KL}}{\lambda} = \hat R + \frac{d^2}{2 \lambda s^2}
        + \frac{1}{2 \lambda} \sum_i \log(1 + \lambda s^2 h_i) .

    Args:
        curvatures: Eigenvalues of the risk's Hessian at the minimum.
        risk: Mean loss of the training samples there, in [0, 1].
        distance: Distance of the parameters from the prior's centre.
        prior_scale: Standard deviation of the prior.
        num_samples: How many training samples.
        inverse_temperature: :math:`\lambda`, by default :math:`\sqrt{8 n}`; chosen before seeing the samples.
        confidence: Probability with which the bound holds.

    Returns:
        The bound, its parts and the best noise.

    Raises:
        InputError: If a number is out of range, or a curvature so negative that no Gaussian exists.

    Note:
        In words: a flat direction can be left uncertain, costs no knowledge, and is cheap; a sharp one must
        be known exactly and each doubling of its curvature costs :math:`\log 2 / (2 \lambda)`. Three limits.
        The curvature is that of the bounded loss in the bound. Multiply the loss by c and :math:`\lambda` by
        1/c: curvatures change by c, and the bound does not. So focal loss's smaller Hessian alone, on its
        smaller scale, is no evidence. The bound is of the risk, not of the calibration error. And the
        expansion is exact for a quadratic risk only.

    References:
        Catoni, "PAC-Bayesian Supervised Classification", 2007; Alquier, "User-friendly Introduction to
        PAC-Bayes Bounds", 2024, theorem 2.1. Kimura and Naganuma, "Geometric Insights into Focal Loss", 2025,
        names the perspective.

    Example:
        >>> sharp, flat = (
        ...     pac_bayes_bound([h] * 10, risk=0.1, distance=3.0, prior_scale=3.0, num_samples=1000)
        ...     for h in (1.0, 0.01)
        ... )
        >>> round(sharp.value, 3), round(flat.value, 3)
        (0.524, 0.273)
    """
    if not 0 <= risk <= 1:
        raise InputError(f"`risk` must lie in [0, 1]; got {risk}.")
    if not 0 < confidence < 1:
        raise InputError(f"`confidence` must be inside (0, 1); got {confidence}.")
    check_at_least("num_samples", num_samples, 1)
    heat = math.sqrt(8 * num_samples) if inverse_temperature is None else inverse_temperature
    for name, value in (("prior_scale", prior_scale), ("inverse_temperature", heat)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"`{name}` must be finite and positive; got {value}.")
    if not (math.isfinite(distance) and distance >= 0):
        raise InputError(f"`distance` must be finite and not negative; got {distance}.")
    stiffness = [heat * prior_scale**2 * float(curvature) for curvature in curvatures]
    if not all(-1 < each < math.inf for each in stiffness):
        least = -1 / (heat * prior_scale**2)
        raise InputError(f"`curvatures` must exceed {least:g} for this prior; got {list(curvatures)}.")
    curvature_price = math.fsum(math.log1p(each) for each in stiffness) / (2 * heat)
    distance_price = distance**2 / (2 * heat * prior_scale**2)
    chance_price = -math.log1p(-confidence) / heat + heat / (8 * num_samples)
    return PacBayesBound(
        risk + curvature_price + distance_price + chance_price,
        risk,
        curvature_price,
        distance_price,
        chance_price,
        tuple(prior_scale / math.sqrt(1 + each) for each in stiffness),
    )
