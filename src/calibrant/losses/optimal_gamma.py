"""Exponent that makes focal loss's gradient equal cross-entropy's at a given probability."""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor

from calibrant._math.shapes import Float

__all__ = ["optimal_gamma"]


@overload
def optimal_gamma(p0: float) -> float: ...
@overload
def optimal_gamma(p0: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]: ...
def optimal_gamma(p0: float | Float[Tensor, "*N"]) -> float | Float[Tensor, "*N"]:
    r"""Exponent :math:`\gamma^*(p_0)` at which focal loss starts to push less than cross-entropy.

    Focal loss's gradient is cross-entropy's times :math:`g(p, \gamma) = (1-p)^\gamma (1 + \gamma R)`,
    :math:`R = -p \log p / (1-p)`. With :math:`\gamma = \gamma^*(p_0)` it is larger below :math:`p_0`, equal
    at :math:`p_0`, and smaller above. With :math:`x = \gamma R` and :math:`\kappa = -\log(1-p_0) / R` the
    condition :math:`g = 1` reads :math:`\log(1 + x) = \kappa x`, and so

    .. math:: \gamma^*(p_0) = -\frac1R \Big( 1 + \frac1\kappa W_{-1}\big( -\kappa e^{-\kappa} \big) \Big),

    which is the reference's formula in other letters. The principal branch :math:`W_0` gives the root
    :math:`\gamma = 0` here; from :math:`p_0 = 1/2` on the branches change roles, every exponent pushes less
    than cross-entropy, and :math:`\gamma^* = 0`.

    Args:
        p0: Probability of the true class, in (0, 1); a number or a tensor of any shape.

    Returns:
        The exponent, not negative: a float for a number, float64 of the shape of ``p0`` for a tensor. NaN
        outside (0, 1).

    Note:
        FLSD-53's round numbers are close: g is 0.987 at (0.2, 5) and 1.007 at (0.25, 3). No gradient.

    References:
        Mukhoti et al., "The Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks",
        2020, Proposition 2.

    Example:
        >>> round(optimal_gamma(0.25), 4), optimal_gamma(0.5)
        (3.0702, 0.0)
    """
    if not isinstance(p0, Tensor):
        return optimal_gamma(torch.tensor(p0, dtype=torch.float64)).item()
    from scipy.special import lambertw

    probs = p0.detach().double()
    ratio = -probs * probs.log() / (1 - probs)
    kappa = -(-probs).log1p() / ratio
    lower = lambertw((-kappa * (-kappa).exp()).cpu().numpy(), -1).real
    scaled = -1 - torch.as_tensor(lower).to(kappa) / kappa
    # W has half its digits near 1/2. Newton's step for log(1 + x) = kappa x gives them back ...
    scaled = scaled - (scaled.log1p() - kappa * scaled) / (1 / (1 + scaled) - kappa)
    # ... until that root meets the one at zero; there its series in 1 - kappa.
    rest = 1 - kappa
    series = rest * (2 + rest * (8 / 3 + rest * (28 / 9 + rest * (464 / 135))))
    scaled = torch.where(rest < 1e-3, series, scaled)
    gammas = torch.where(probs < 0.5, (scaled / ratio).clamp(min=0), 0.0)
    return torch.where((probs > 0) & (probs < 1), gammas, torch.nan)
