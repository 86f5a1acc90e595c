"""Decomposition of focal loss: a proper loss of the focal calibration map's probabilities."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, check_probs
from calibrant._math.errors import InputError
from calibrant._math.focal_map import check_gamma, focal_map_log_odds
from calibrant._math.focal_map_inverse import inverse_focal_map_log_odds, inverse_focal_map_logits
from calibrant._math.shapes import Float
from calibrant._math.simplex import focal_power, focal_value, log_one_minus_softmax, log_softmax, softplus

__all__ = ["focal_losses", "proper_focal_losses", "proper_focal_weight"]


def focal_losses(probs: ArrayLike, *, gamma: float) -> Float[Tensor, "N C"]:
    r"""Focal loss of every class as the true one.

    .. math:: L(q, k) = -(1 - q_k)^\gamma \log q_k

    Args:
        probs: Probabilities of the classes, shape ``(N, C)``, or of an event, shape ``(N,)``.
        gamma: Exponent, greater than -1.

    Returns:
        Shape ``(N, C)``, for an event ``(N, 2)``: losses of its absence and of its presence; float64; inf for
        a class of probability 0.

    Raises:
        InputError: If ``gamma`` is not greater than -1 or a row is not a distribution.

    Example:
        >>> focal_losses([0.8], gamma=2)
        tensor([[1.0300, 0.0089]], dtype=torch.float64)
    """
    check_gamma(gamma)
    return _focal_of(_log_odds_of_classes(_wide(probs)), gamma)


def proper_focal_losses(probs: ArrayLike, *, gamma: float) -> Float[Tensor, "N C"]:
    r"""Proper part of focal loss, for every class as the true one.

    .. math:: L^*(p, k) = L(\rho_\gamma^{-1}(p), k), \qquad L(q, k) = -(1 - q_k)^\gamma \log q_k

    with the focal calibration map :math:`\rho_\gamma`. So :math:`L(q, k) = L^*(\rho_\gamma(q), k)`: training
    with focal loss is training with a strictly proper loss of the mapped probabilities. For two classes and
    :math:`\gamma > 0` it is below focal loss for a true class below one half and above it above.
    Arguments, errors and results are those of :func:`focal_losses`.

    Note:
        The training loss is :func:`calibrant.losses.proper_focal_loss`. Strictly proper for every
        :math:`\gamma > -1`: the map is a bijection, and the risk has its only stationary point at the truth.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", 2024, arXiv:2408.11598, propositions 2 and 4.

    Example:
        >>> proper_focal_losses([0.8], gamma=1)
        tensor([[0.7941, 0.1185]], dtype=torch.float64)
    """
    check_gamma(gamma)
    wide = _wide(probs)
    if wide.task == "binary":
        inverse = inverse_focal_map_log_odds(torch.logit(wide.scores), gamma)
        return _focal_of(torch.stack([-inverse, inverse], dim=1), gamma)
    log_probs = inverse_focal_map_logits(wide.scores.log(), gamma)
    return _focal_of(_log_odds(log_probs), gamma)


def proper_focal_weight(probs: ArrayLike, *, gamma: float) -> Float[Tensor, " N"]:
    r"""Weight function of the binary proper part, by decision threshold.

    A proper loss of an event is a mixture of costs, with weight w(p) on the decision threshold p
    (Schervish), and its derivatives are those of all proper losses:

    .. math:: \frac{d L^*(p, 1)}{dp} = -(1 - p) \, w(p), \qquad \frac{d L^*(p, 0)}{dp} = p \, w(p) .

    For cross-entropy (:math:`\gamma = 0`) :math:`w(p) = 1 / (p (1 - p))`. Here, with q the inverse map of p,
    s its log-odds and S the map in log-odds,

    .. math:: w(p) = \frac{g(q) \, (1 - q)}{p \, (1 - p)^2 \, S'(s)} .

    That it is positive is what makes the loss strictly proper.

    Args:
        probs: Probabilities of an event inside (0, 1), shape ``(N,)``.
        gamma: Exponent, greater than -1.

    Returns:
        Positive weights, shape ``(N,)``, float64.

    Raises:
        InputError: If ``gamma`` is not greater than -1 or a probability is not inside (0, 1).

    References:
        Buja, Stuetzle and Shen, "Loss Functions for Binary Class Probability Estimation and Classification",
        2005. Schervish, "A General Method for Comparing Probability Assessors", 1989.

    Example:
        >>> proper_focal_weight([0.5, 0.8], gamma=0)
        tensor([4.0000, 6.2500], dtype=torch.float64)
        >>> proper_focal_weight([0.5, 0.8], gamma=2)
        tensor([0.8917, 1.5589], dtype=torch.float64)
    """
    check_gamma(gamma)
    wide = _wide(probs)
    if wide.task != "binary":
        raise InputError(f"`probs` must have shape (N,); got {tuple(wide.scores.shape)}.")
    if not bool(((wide.scores > 0) & (wide.scores < 1)).all()):
        raise InputError("`probs` must be strictly between 0 and 1.")
    mapped = torch.logit(wide.scores)
    inverse = inverse_focal_map_log_odds(mapped, gamma)
    with torch.enable_grad():
        free = inverse.detach().requires_grad_()
        (slope,) = torch.autograd.grad(focal_map_log_odds(free, gamma).sum(), free)
    # g(q) (1 - q) / (1 - p) is equal for both sides: take the side with q not near one.
    near, far = -inverse.abs(), -mapped.abs()
    prob = near.sigmoid()
    factor = focal_power(near, gamma) * (1 + gamma * prob * softplus(-near) / (-near).sigmoid())
    shared = factor * (-near).sigmoid() / (-far).sigmoid()
    return shared / (wide.scores * (-mapped).sigmoid() * slope)


def _wide(probs: ArrayLike) -> Checked:
    checked = check_probs(probs)
    return replace(checked, scores=checked.scores.double())


def _log_odds_of_classes(wide: Checked) -> Float[Tensor, "N C"]:
    if wide.task == "binary":
        log_odds = torch.logit(wide.scores)
        return torch.stack([-log_odds, log_odds], dim=1)
    return _log_odds(wide.scores.log())


def _log_odds(logits: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
    return log_softmax(logits) - log_one_minus_softmax(logits)


def _focal_of(log_odds: Float[Tensor, "N C"], gamma: float) -> Float[Tensor, "N C"]:
    """Focal loss of classes given by their log-odds, including probabilities 0 and 1."""
    values = focal_value(log_odds.clamp(min=-1e300, max=1e300), gamma)
    values = torch.where(log_odds == -torch.inf, torch.inf, values)
    return torch.where(log_odds == torch.inf, 0.0, values)
