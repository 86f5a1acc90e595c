r"""Focal loss and entropy: the bound, and when its minimiser is less certain than the truth.

**The bound**, :math:`\mathrm{FL}(p, q) \ge \mathrm{CE}(p, q) - \gamma H(q)`, is published with a proof for
:math:`\gamma \ge 1`. It holds for every :math:`\gamma > 0`: focal loss is convex in :math:`\gamma`, so it
lies above its tangent at 0,

.. math:: \mathrm{FL} \ge \mathrm{CE} - \gamma \sum_i p_i \log q_i \log (1 - q_i) ,

and :math:`\log q \log(1-q) \le -q \log q - (1-q) \log(1-q) \le H`. (Divide the first by its left side: the
logarithmic means of q and 1 and of 1 - q and 1 then add to at least one. They exceed the geometric means, and
:math:`\sqrt q + \sqrt{1-q} \ge 1`.) For negative exponents the tangent's bound holds and the entropy's fails.

**The minimiser's entropy.** The true probabilities are :math:`p_i \propto q_i / g(q_i)`. Where g falls from
the least to the largest :math:`q_i`, p majorises q and q has the higher entropy, as the reference says of all
cases. Where g rises over all of them (all :math:`q_i` below its turning point) q majorises p and has the
lower. With n equal classes and others next to impossible the entropy is lower as soon as :math:`g(1/n) > 1`,
that is, for :math:`0 < \gamma < \gamma^*(1/n)`. So with K classes the claim fails for every positive exponent
below :math:`\gamma^*(1/(K-1))`: none for K = 2 and 3, 1.43 for 4, 3.07 for 5, 12.8 for 10, 251 for 100. For
two classes it is proved (g(q) is below 1 from 1/2 on, and below g(1-q)). From that exponent on, none of
40,000 posteriors broke it for each of four exponents and K = 3, 4, 5, 6, 8.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_probs
from calibrant._math.errors import InputError
from calibrant._math.focal_map import check_gamma
from calibrant._math.focal_map_inverse import inverse_focal_map_logits
from calibrant._math.shapes import Float

__all__ = ["EntropyBound", "entropy_bound", "entropy_regularised_minimiser", "entropy_shift"]

_MAX_STEPS = 200


class EntropyBound(NamedTuple):
    """Expected focal loss and its lower bounds, one value per row."""

    focal: Float[Tensor, " N"]
    cross_entropy: Float[Tensor, " N"]
    entropy: Float[Tensor, " N"]  # of the prediction
    entropy_bound: Float[Tensor, " N"]  # cross_entropy - gamma * entropy
    tangent_bound: Float[Tensor, " N"]  # never above focal, for any exponent


def entropy_bound(posterior: ArrayLike, probs: ArrayLike, *, gamma: float) -> EntropyBound:
    r"""Focal loss in expectation against cross-entropy less :math:`\gamma` times the entropy.

    .. math::
        \mathrm{FL}(p, q) = -\sum_i p_i (1 - q_i)^\gamma \log q_i
        \ge \mathrm{CE}(p, q) - \gamma \sum_i p_i \log q_i \log(1 - q_i)
        \ge \mathrm{CE}(p, q) - \gamma H(q)

    Args:
        posterior: True probabilities p of the classes, shape ``(N, C)``.
        probs: Predicted probabilities q, shape ``(N, C)``.
        gamma: Focal loss's exponent, greater than -1.

    Returns:
        All three, their parts, in nats, float64 ``(N,)`` each.

    Raises:
        InputError: If ``gamma`` is not greater than -1, shapes disagree, or rows are not probabilities.

    Note:
        The last step needs :math:`\gamma \ge 0`: at even odds and :math:`\gamma = -1/2` focal loss is 0.980
        and the entropy bound 1.040. The constant :math:`\gamma` is the best one: for two classes, p certain
        of a class with small q, (CE - FL) / H tends to it as q tends to 0. The proof is at the head of this
        module. The bound does not concern curvature.

    References:
        Mukhoti et al., "The Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks",
        2020, appendix H, for exponents of at least one.

    Example:
        >>> found = entropy_bound([[1.0, 0.0]], [[0.7, 0.3]], gamma=0.5)
        >>> [round(bound.item(), 4) for bound in (found.focal, found.tangent_bound, found.entropy_bound)]
        [0.1954, 0.142, 0.0512]
    """
    check_gamma(gamma)
    truth, predicted = (check_probs(each, task="multiclass").scores.double() for each in (posterior, probs))
    if truth.shape != predicted.shape:
        raise InputError(
            f"`probs` must have the shape of `posterior`, {tuple(truth.shape)}; got {tuple(predicted.shape)}."
        )
    surprise = torch.where(truth > 0, -torch.special.xlogy(truth, predicted), 0.0)
    miss = torch.where(predicted < 1, (-predicted).log1p(), -torch.inf)
    possible = (surprise > 0) & (surprise < torch.inf)
    weighted = torch.where(possible, surprise * (gamma * miss).exp(), surprise)
    slope = torch.where(possible, surprise * miss, 0.0)
    cross_entropy, entropy = surprise.sum(-1), torch.special.entr(predicted).sum(-1)
    return EntropyBound(
        weighted.sum(-1),
        cross_entropy,
        entropy,
        cross_entropy - gamma * entropy,
        cross_entropy + gamma * slope.sum(-1),
    )


def entropy_shift(posterior: ArrayLike, *, gamma: float) -> Float[Tensor, " N"]:
    r"""Entropy of focal loss's minimiser minus that of the true probabilities.

    Args:
        posterior: True probabilities of the classes, shape ``(N, C)``.
        gamma: Focal loss's exponent, greater than -1.

    Returns:
        Float64 ``(N,)``, in nats. Positive where focal loss makes a network less certain than it should be.

    Raises:
        InputError: If ``gamma`` is not greater than -1, or rows are not probabilities.

    Note:
        The reference claims that it is always positive, which is true for two classes and positive exponents.
        It is negative for low top probabilities among many classes: see the head of this module, and the
        example, where the truth is 20% and ninety-nine classes share the rest.

    References:
        Mukhoti et al., "The Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks",
        2020, appendix H and figure 7.

    Example:
        >>> round(entropy_shift([[0.8, 0.2]], gamma=2).item(), 4)
        0.1603
        >>> round(entropy_shift([[0.2] + 99 * [0.8 / 99]], gamma=1).item(), 4)
        -0.0426
    """
    check_gamma(gamma)
    truth = check_probs(posterior, task="multiclass").scores.double()
    minimiser = inverse_focal_map_logits(truth.log(), gamma).exp()
    return torch.special.entr(minimiser).sum(-1) - torch.special.entr(
        truth / truth.sum(-1, keepdim=True)
    ).sum(-1)


def entropy_regularised_minimiser(posterior: ArrayLike, *, weight: float) -> Float[Tensor, "N C"]:
    r"""Probabilities that minimise cross-entropy less a multiple of the entropy.

    .. math:: \min_q \; -\sum_i p_i \log q_i - \beta H(q) , \qquad
              \frac{p_i}{q_i} - \beta \log q_i = \mu \quad \text{for every class}

    Cross-entropy under the constraint :math:`H(q) \ge h`, with :math:`\beta` as the multiplier: what focal
    loss is an upper bound of for :math:`\beta = \gamma`, and is often said to be. It is not the same: see the
    example.

    Args:
        posterior: True probabilities p of the classes, shape ``(N, C)``.
        weight: The multiplier :math:`\beta`, not negative.

    Returns:
        Probabilities, float64 ``(N, C)``. With a positive weight a class that cannot happen gets some too.

    Raises:
        InputError: If ``weight`` is negative, or rows are not probabilities.

    Note: A strictly convex problem. As :math:`\beta` grows q tends to the uniform distribution, as focal
        loss's minimiser does as :math:`\gamma` grows. But for one class of 0.8 among two it is at 0.627 for
        :math:`\gamma = 2` where this is at 0.602. Bisection on :math:`\mu`.

    Example:
        >>> from calibrant.theory import inverse_focal_calibration_map
        >>> entropy_regularised_minimiser([[0.8, 0.2]], weight=2.0)
        tensor([[0.6019, 0.3981]], dtype=torch.float64)
        >>> inverse_focal_calibration_map([[0.8, 0.2]], gamma=2.0)
        tensor([[0.6266, 0.3734]], dtype=torch.float64)
    """
    if not 0 <= weight < float("inf"):
        raise InputError(f"`weight` must be finite and not negative; got {weight}.")
    truth = check_probs(posterior, task="multiclass").scores.double()
    truth = truth / truth.sum(-1, keepdim=True)
    if weight == 0:
        return truth
    # At the mean over q of the condition, mu is 1 + weight * H(q).
    low = torch.ones_like(truth[:, :1])
    high = low + weight * math.log(truth.shape[-1])
    for _ in range(_MAX_STEPS):
        level = (low + high) / 2
        over = _shares(truth, level, weight).sum(-1, keepdim=True) > 1
        low, high = torch.where(over, level, low), torch.where(over, high, level)
        if bool(((high - low) <= 2e-16 * high).all()):
            break
    shares = _shares(truth, (low + high) / 2, weight)
    return shares / shares.sum(-1, keepdim=True)


def _shares(truth: Tensor, level: Tensor, weight: float) -> Tensor:
    """Solve p / q - weight log q = level for q: y = p / (weight q) has log y + y known, Wright's omega."""
    from scipy.special import wrightomega

    possible = truth > 0
    constant = level / weight + (torch.where(possible, truth, 1.0) / weight).log()
    y = torch.from_numpy(wrightomega(constant.numpy()))
    return torch.where(possible, truth / weight / y, (-level / weight).exp())
