"""Properized focal loss: focal loss on the focal calibration map's inverse."""

from __future__ import annotations

from functools import partial
from itertools import repeat, starmap
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibrant._math.focal_map import entropy_ratio, entropy_ratio_of_top, log_gradient_factor
from calibrant._math.focal_map_inverse import inverse_focal_map_logits, slope_by_log_odds
from calibrant._math.shapes import Float, Integer
from calibrant._math.simplex import LOG_OF_ZERO, top_class
from calibrant._math.true_class import focal_value, softplus
from calibrant.losses._closed_form import BLOCK, Pull, by_closed_form, can_look, of_row_numbers, times_rows
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import FEW, Terms, row_values
from calibrant.losses._rows import Reduction, Rows, as_rows, check_not_negative

__all__ = ["ProperFocalLoss", "proper_focal_loss"]


@properness("strictly proper: the inverse focal map undoes what focal loss elicits")
def proper_focal_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    gamma: float = 3.0,
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Properized focal loss.

    .. math:: \ell = -(1 - q_t)^\gamma \log q_t, \qquad q = \rho_\gamma^{-1}(\mathrm{softmax}(z))

    with the focal calibration map :math:`\rho_\gamma`. A network trained with focal loss asks for
    :math:`\rho_\gamma` after it; one trained with this loss gives its output at once.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        gamma: Exponent, not negative; 0 is cross-entropy.
        targets: Distributions over the classes in place of ``labels``; the loss is then its expectation.
        weight: Weight of each class, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: As in :func:`focal_loss`.

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or ``gamma`` is negative.
        TypeError: If ``labels`` are not integers.

    Note:
        Strictly proper. The inverse has no closed form: it is solved by Newton's method, in a few passes
        over the logits, and differentiated as an implicit function. O(N C) time and memory.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", ECAI 2024. Charoenphakdee et al., "On Focal Loss for Class-Posterior Probability
        Estimation", CVPR 2021.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.5, 0.5]]).log()
        >>> round(proper_focal_loss(logits, torch.tensor([0]), gamma=2).item(), 4)  # the map keeps even odds
        0.1733
    """
    check_not_negative(gamma=gamma)
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    if gamma == 0:
        return rows.layout.finish(rows.cross_entropy())

    def plain(logits: Tensor) -> Tensor:
        mapped = inverse_focal_map_logits(logits, gamma)
        return rows.reduce(row_values(rows._replace(logits=mapped), Terms(gamma)))

    small = rows.logits.numel() <= FEW
    if small or rows.soft or gamma > _LARGEST or not can_look(rows.logits, rows.labels, rows.weight):
        return rows.layout.finish(plain(rows.logits))
    return rows.layout.finish(by_closed_form(rows.logits, partial(_closed_form, rows, gamma), plain))


_LARGEST = 6.0  # exponent; with larger ones the start is too far off
_STEPS = 12
_NEGLIGIBLE = 1e-30  # a probability so small that v is its logarithm, and float32 may lose it
_FAINT = -80.0  # logarithm of what the top class misses, in float32 no longer the sum of the others


class _DidNotConvergeError(RuntimeError):
    """The plain form takes over."""


class _Top(NamedTuple):
    """The top class of each row by y, the log-odds of all others against it; in float64."""

    prob: Float[Tensor, "R 1"]
    miss: Float[Tensor, "R 1"]
    log_miss: Float[Tensor, "R 1"]
    value: Float[Tensor, "R 1"]  # v
    slope: Float[Tensor, "R 1"]  # -dv/dy


def _see_top(y: Float[Tensor, "R 1"], gamma: float) -> _Top:
    surprise, ratio = softplus(y), entropy_ratio_of_top(y.exp())
    prob, miss = torch.sigmoid(-y), torch.sigmoid(y)
    value = -surprise - gamma * (y - surprise) - (gamma * ratio).log1p()
    return _Top(prob, miss, y - surprise, value, slope_by_log_odds(prob, miss, ratio, gamma))


def _see_others(logits: Tensor, top: Tensor, ratios: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Fill ``ratios`` of the other classes to their largest; its logit under the top one, sum and squares."""
    gaps = torch.sub(logits, logits.gather(1, top), out=ratios).scatter_(1, top, -torch.inf)
    shift = gaps.amax(1, keepdim=True).clamp_(min=LOG_OF_ZERO)
    np.exp(ratios.sub_(shift).numpy(), out=ratios.numpy())
    total, squares = ratios.sum(1, keepdim=True), torch.linalg.vector_norm(ratios, dim=1, keepdim=True) ** 2
    return shift, torch.where(total == 0, 1, total), torch.where(squares == 0, 1, squares)


def _start(log_odds: Tensor, count: Tensor, gamma: float) -> Float[Tensor, "R 1"]:
    """Where y is if the other classes, of these log-odds together, are ``count`` equal ones."""
    y, log_count = torch.where(log_odds > 0, log_odds, log_odds / (1 + gamma)), count.log()
    for _ in range(5):
        top = _see_top(y, gamma)
        log_prob = top.log_miss - log_count
        prob = log_prob.exp().clamp(max=0.5)
        ratio = entropy_ratio(prob, log_prob)
        value = log_prob - log_gradient_factor(prob, ratio, gamma)
        slope = slope_by_log_odds(prob, 1 - prob, ratio, gamma) / (1 - prob)
        ahead = value - top.value - (log_odds - log_count)
        y = (y - ahead / (slope * top.prob + top.slope)).minimum(log_count)
    return y


class _Others(NamedTuple):
    """All classes but the top one; a block of rows of each is in the cache at a time."""

    ratios: Float[Tensor, "R C"]  # to the largest
    probs: Float[Tensor, "R C"]
    by_value: Float[Tensor, "R C"]  # dq/dv


def _newton(
    others: _Others, largest: Float[Tensor, "B 1"], moved: Float[Tensor, "B 1"] | None, gamma: float
) -> tuple[Tensor, ...]:
    r"""A step towards :math:`q = e (1 - q)^{\gamma - 1} (1 - q - \gamma q \log q)`, where e is q / g(q).

    Args:
        others: Probabilities and their derivatives are replaced.
        largest: The largest e of each row.
        moved: How far v has fallen since the last step.
        gamma: The exponent.

    Returns:
        Sums of the probabilities and of their derivatives, and the largest change.
    """
    ratios, probs, by_value = others
    odds = ratios * largest
    if moved is None:
        probs.copy_(odds)
    else:
        probs.addcmul_(by_value, moved, value=-1)
    probs.clamp_(torch.finfo(probs.dtype).tiny, 0.5)
    misses, logs = 1 - probs, torch.empty_like(probs)
    np.log(probs.numpy(), out=logs.numpy())  # three times as fast as torch's
    inner = torch.addcmul(misses, probs, logs, value=-gamma, out=by_value)
    factor = odds.mul_(misses.pow(gamma - 2))
    slope = factor * inner
    factor.mul_(misses)
    excess = torch.addcmul(probs, factor, inner, value=-1, out=misses)
    slope.mul_(gamma - 1).add_(factor, alpha=1 + gamma).addcmul_(factor, logs, value=gamma).add_(1)
    by_value.mul_(factor).div_(slope)
    probs.sub_(excess.div_(slope))
    return probs.sum(1, keepdim=True), by_value.sum(1, keepdim=True), excess.abs_().amax(1, keepdim=True)


def _solve(
    others: _Others,
    shift: Float[Tensor, "R 1"],
    y: Float[Tensor, "R 1"],
    gamma: float,
    moved: Float[Tensor, "R 1"] | None = None,
) -> Float[Tensor, "R 1"]:
    """Solve for all others and for y, which is right when they sum to what the top class misses.

    Returns:
        The solution of y.
    """
    dtype = others.ratios.dtype
    enough, size = torch.finfo(dtype).eps ** 0.8, max(1, BLOCK // others.ratios.shape[1])
    for _ in range(_STEPS):
        top = _see_top(y, gamma)
        largest = (shift + top.value).exp().to(dtype)
        parts = [each if each is None else each.split(size) for each in (*others, largest, moved)]
        blocks = zip(*(each or repeat(None) for each in parts), strict=False)
        sums = [_newton(_Others(*block[:3]), *block[3:], gamma) for block in blocks]
        total, by_value, change = (torch.cat(each) for each in zip(*sums, strict=True))
        step = (total - top.miss) / (top.miss * top.prob + by_value * top.slope)
        step = torch.where(top.log_miss < _FAINT, 0, step)
        y, moved = y + step, (top.slope * step).to(dtype)
        left = ((change / top.miss > enough) | (step.abs() > enough)).squeeze(1)
        if not bool(left.any()):
            others.probs.addcmul_(others.by_value, moved, value=-1)
            return y
        if 0 < int(left.sum()) < len(left) // 2:
            some = _Others(*(each[left] for each in others))
            others.probs.addcmul_(others.by_value, moved, value=-1)
            y[left] = _solve(some, shift[left], y[left], gamma, moved[left])
            others.probs[left], others.by_value[left] = some[1:]
            return y
    raise _DidNotConvergeError


@np.errstate(all="ignore")  # the caller may have set them to raise
def _closed_form(rows: Rows, gamma: float, logits: Float[Tensor, "R C"]) -> tuple[Tensor, Pull]:
    r"""The loss, and what its gradient takes.

    With q the inverse, g the factor of focal loss's gradient and :math:`v = \log q - \log g(q)`, every class
    has :math:`v_j = z_j + c`, and c makes the row sum to one. So

    .. math:: \frac{\partial}{\partial z_j} \log \frac{q_t}{1 - q_t}
              = \frac{1[j = t] - w_j}{(1 - q_t) \, dv_t / d \log q_t}, \qquad w_j \propto \frac{dq_j}{dv_j}
    """
    ignored, place, top = rows.ignored(), rows.classes().unsqueeze(1), top_class(logits).unsqueeze(1)
    size = max(1, BLOCK // logits.shape[1])
    others = _Others(*(torch.empty_like(logits) for _ in range(3)))
    blocks = zip(*(each.split(size) for each in (logits.detach(), top, others.ratios)), strict=True)
    sums = zip(*starmap(_see_others, blocks), strict=True)
    shift, total, squares = (torch.cat(each).double() for each in sums)
    y = _solve(others, shift, _start(shift + total.log(), total.square() / squares, gamma), gamma)
    true, weights = others.probs.gather(1, place), others.by_value
    of_top, first = place == top, _see_top(y, gamma)
    true = torch.where(of_top, 0.5, true.double())
    value = (logits.gather(1, place) - logits.gather(1, top)).double() + first.value  # v of the true class
    log_true = torch.where(true > _NEGLIGIBLE, true.log(), value)
    log_odds = torch.where(of_top, -y, log_true - (-true).log1p()).squeeze(1)
    ratio = entropy_ratio(true, log_true)
    slope = torch.where(of_top, first.slope, slope_by_log_odds(true, 1 - true, ratio, gamma))
    top_weight = first.prob * first.miss / first.slope  # dq/dv of the top class
    others = weights.sum(1, keepdim=True, dtype=torch.float64)
    weight_of_rest = others + torch.where(of_top, 0, top_weight - weights.gather(1, place))
    scale = 1 / (slope * (others + top_weight))
    weights.scatter_(1, top, top_weight.to(weights.dtype))
    weights.scatter_(1, place, -weight_of_rest.to(weights.dtype))
    if bool(ignored.any()):  # such a row may hold NaN
        weights.masked_fill_(ignored.unsqueeze(1), 0)
        scale.masked_fill_(ignored.unsqueeze(1), 0)
    loss, by_log_odds = of_row_numbers(
        (log_odds.to(logits.dtype),), lambda each: rows.reduce(focal_value(each, gamma))
    )
    return loss, lambda grad: times_rows(
        weights, -by_log_odds(grad)[0].unsqueeze(1) * scale.to(weights.dtype)
    )


class ProperFocalLoss(LossModule, function=proper_focal_loss, check=check_not_negative):
    """:func:`proper_focal_loss` as a module."""

    gamma: float = 3.0
