r"""Losses of the true class's probability and of the squared distance, with their gradients in closed form.

With :math:`p = p_t`, :math:`u = 1 - p` summed from the other classes, and the squared distance
:math:`B = \sum_k (p_k - 1[k = t])^2`,

.. math:: \ell = b^{|\gamma|} (-\log p) + 2 \lambda_1 u + \lambda_2 B , \qquad
          b = u \text{ if } \gamma \ge 0 \text{ else } 1 + p .

A rule may give each row its exponent; the negative ones are AdaFocal's inverse focal loss. (A negative number
in place of a rule is focal loss's own power of u, in the plain form.)

The gradient of the first two terms by logit j is :math:`f (p_j - 1[j = t])` with
:math:`f = b^{|\gamma|} (1 + \gamma p (-\log p) / b) + 2 \lambda_1 p`; that of B is
:math:`2 p_j (p_j + p u - Q)` for :math:`j \ne t` and :math:`-2 p B` for t, where
:math:`Q = \sum_{j \ne t} p_j^2 = B - u^2`. So one set of exponentials serves forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calibrant._math.shapes import Float, Int
from calibrant._math.simplex import focal_power, focal_value, log_one_minus_softmax, log_softmax, softplus
from calibrant.losses._closed_form import (
    BLOCK,
    FEW,
    Closed,
    Pull,
    by_closed_form,
    can_look,
    is_traced,
    scaled,
)
from calibrant.losses._rows import Layout, Reduction, Rows

_LOST = 16  # times the smallest normal number; below, a probability has few digits


class Steps(NamedTuple):
    """An exponent for each range of p_t: tensors, or numbers, which need no copy to the device."""

    gammas: Tensor | Sequence[float]
    edges: Tensor | Sequence[float]  # between the ranges
    right: bool = False  # True if an edge belongs to the range below

    def at(self, probs: Float[Tensor, "*R"]) -> Float[Tensor, "*R"]:
        if isinstance(self.gammas, Tensor):
            ranges = (probs.unsqueeze(-1) >= torch.as_tensor(self.edges)).sum(-1)
            return self.gammas.to(probs.dtype)[ranges]
        gamma = torch.full_like(probs, self.gammas[-1])
        for edge, value in zip(reversed(self.edges), reversed(self.gammas[:-1]), strict=True):
            gamma = torch.where(probs <= edge if self.right else probs < edge, value, gamma)
        return gamma


class Terms(NamedTuple):
    gamma: float | Steps | None  # None: no focal term
    l1: float = 0.0
    l2: float = 0.0


_CROSS_ENTROPY = Terms(0)


def row_loss(rows: Rows, terms: Terms) -> Tensor:
    if terms == _CROSS_ENTROPY:
        return rows.layout.finish(rows.cross_entropy())

    def plain(seen: Rows) -> Tensor:
        return seen.reduce(row_values(seen, terms))

    gamma = terms.gamma
    if rows.soft or not (isinstance(gamma, Steps) or gamma is None or gamma >= 0):
        return plain(rows)
    return loss_of_rows(rows, closed_form(rows, terms), plain)


def closed_form(rows: Rows, terms: Terms) -> Closed:
    """The faster closed form: compiled for few readable logits, else torch's."""
    gamma, l1, l2 = terms
    if rows.logits.numel() > FEW or not can_look(rows.logits, rows.labels, rows.weight):
        return partial(_closed_form, rows[1:], terms)
    if isinstance(gamma, Steps):
        gammas, edges = (
            tuple(each.tolist() if isinstance(each, Tensor) else each) for each in (gamma.gammas, gamma.edges)
        )
        return _compiled_form(rows, gammas=gammas, edges=edges, right=gamma.right, l1=l1, l2=l2)
    focal = 0.0 if gamma is None else 1.0
    return _compiled_form(rows, gammas=(gamma or 0.0,), focal=focal, l1=l1, l2=l2)


class Form(NamedTuple):
    """The terms of a row-wise loss that is compiled; cross-entropy by default."""

    gammas: Any = (0.0,)  # one, or one for each range of p_t
    edges: Any = ()  # between the ranges
    right: bool = False  # True if p_t at an edge is in the range below
    focal: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    dual: bool = False  # True adds the runner-up's probability to the base of the power
    smoothing: float = 0.0  # share of the label given to all classes
    spread_to_all: bool = True
    margin: float = 0.0
    penalty: float = 0.0  # of logits further than the margin below the largest


@lru_cache(maxsize=64)
def _form(**terms: Any) -> Form:
    form = Form(**terms)
    gammas, edges = (np.array(each, dtype=np.float64) for each in form[:2])
    numbers: Any = (each if isinstance(each, bool) else float(each) for each in form[2:])
    return Form(gammas, edges, *numbers)


def _compiled_form(rows: Rows, **terms: Any) -> Closed:
    from calibrant.losses._compiled import row_losses  # numba: imported where it is first needed

    return row_losses(rows, _form(**terms))


def compiled_loss(rows: Rows, plain: Callable[[Rows], Tensor], **terms: Any) -> Tensor:
    """Loss with the terms of :class:`Form` if rows can be read, else by the plain form."""
    if rows.soft or not can_look(rows.logits, rows.labels, rows.weight):
        return plain(rows)
    return loss_of_rows(rows, _compiled_form(rows, **terms), plain)


def loss_of_rows(rows: Rows, closed: Closed, plain: Callable[[Rows], Tensor]) -> Tensor:
    """Loss by its closed form, or by the plain one if autograd needs it."""

    def as_closed(logits: Tensor) -> Tensor:
        # Like the closed form's result: in the working precision.
        layout = Layout(rows.layout.reduction, rows.labels.shape, logits.dtype)
        return plain(rows._replace(logits=logits, layout=layout))

    return rows.layout.finish(by_closed_form(rows.logits, closed, as_closed))


def row_values(rows: Rows, terms: Terms) -> Float[Tensor, " R"]:
    """Plain form: differentiable any number of times, transformable and compilable."""
    if rows.soft:
        return _soft_values(rows, terms)
    seen = rows.true_class()
    log_odds = seen.log_odds
    values = torch.zeros_like(log_odds)
    if terms.gamma is not None:
        values = _focal(log_odds, terms.gamma)
    if terms.l1:
        values = values + 2 * terms.l1 * torch.sigmoid(-log_odds)
    if terms.l2:
        squares = (torch.logsumexp(2 * seen.others, -1) - 2 * seen.log_sum).exp()
        values = values + terms.l2 * (-2 * softplus(log_odds)).exp() * (1 + squares)
    return values


def _focal(log_odds: Float[Tensor, "*R"], gamma: float | Steps) -> Float[Tensor, "*R"]:
    if not isinstance(gamma, Steps):
        return focal_value(log_odds, gamma)
    exponent = gamma.at(torch.sigmoid(log_odds.detach()))
    inverse = (-exponent * torch.sigmoid(log_odds).log1p()).exp()
    power = torch.where(exponent < 0, inverse, focal_power(log_odds, exponent.clamp(min=0)))
    return power * softplus(-log_odds)


def _soft_values(rows: Rows, terms: Terms) -> Float[Tensor, " R"]:
    targets = rows.weighted_targets()
    values = rows.logits.new_zeros(rows.logits.shape[0])
    log_probs = log_softmax(rows.logits)
    if terms.gamma is not None:
        log_odds = log_probs - log_one_minus_softmax(rows.logits)
        values = (targets * _focal(log_odds, terms.gamma)).sum(-1)
    if terms.l1 or terms.l2:
        distance = log_probs.exp() - rows.labels
        penalty = terms.l1 * distance.abs().sum(-1) + terms.l2 * distance.square().sum(-1)
        values = values + targets.sum(-1) * penalty
    return values


_NLL = torch.ops.aten.nll_loss_forward.default
# How aten writes a reduction.
_CODES: dict[Reduction, int] = {"none": 0, "mean": 1, "sum": 2}


def _split(
    logits: Float[Tensor, "R C"], place: Int[Tensor, "R 1"]
) -> tuple[Float[Tensor, "R C"], Float[Tensor, "R 1"], Float[Tensor, "R 1"], Float[Tensor, "R 1"]]:
    """Probabilities with the true class zeroed; its probability, the sum of the others, and -log p_t."""
    probs = torch.softmax(logits, 1)
    true = probs.gather(1, place)
    lost = true < _LOST * torch.finfo(true.dtype).tiny
    # If p_t underflows, its logarithm comes from the largest probability. Only on a CPU can this be
    # checked without waiting.
    needed = logits.device.type != "cpu" or is_traced() or bool(lost.any())
    exact = None
    if needed:
        top = logits.argmax(1, keepdim=True)
        exact = logits.gather(1, top).sub_(logits.gather(1, place)).sub_(probs.gather(1, top).log())
    # A tiny number for the true class keeps the sum above zero.
    others = probs.scatter_(1, place, torch.finfo(true.dtype).tiny).sum(1, keepdim=True)
    misfit = (others / true).log1p_()  # u + p_t = 1
    return probs, true, others, misfit if exact is None else torch.where(lost, exact, misfit)


# Labels, weight, ignore_index and layout of the rows.
_Request: TypeAlias = tuple[Tensor, Tensor | None, int, Layout]


class _Scratch(NamedTuple):
    """Data of the backward pass: grad_j = p_j (slope + curve p_j), with the true class separate."""

    probs: Float[Tensor, "R C"]
    slope: Float[Tensor, "R 1"]
    curve: Float[Tensor, "R 1"] | None = None
    at_true: Float[Tensor, "R 1"] | None = None
    place: Int[Tensor, "R 1"] | None = None


def _closed_form(request: _Request, terms: Terms, logits: Float[Tensor, "R C"]) -> tuple[Tensor, Pull]:
    """Reduced loss, and the pull-back of its gradient; on any device."""
    labels, weight, ignore_index, layout = request
    gamma, l1, l2 = terms
    column = labels.unsqueeze(1)
    ignored = column == ignore_index
    # A wrong label below zero does not pass for class 0: nll_loss refuses it.
    place = column.clamp(min=0) if ignore_index < 0 else column.masked_fill(ignored, 0)
    probs, true, others, misfit = _split(logits, place)
    if gamma is None:
        values, factor = torch.zeros_like(true), torch.zeros_like(true)
    else:
        base = others
        if isinstance(gamma, Steps):
            gamma = gamma.at(true)
            base = torch.where(gamma < 0, 1 + true, others)
        power = base ** abs(gamma)
        values = misfit * power
        factor = power + gamma * (values * true) / base
        factor = torch.where(true == 0, 1, factor)  # the value is infinite there, and 0 * inf is NaN
    if l1:
        values = values + 2 * l1 * others
        factor = factor + 2 * l1 * true
    squares = None
    if l2:
        squares = torch.linalg.vector_norm(probs, dim=1, keepdim=True).square()  # Q
        values = values + l2 * (others.square() + squares)
    # nll_loss reads only the entries of the true classes; its weights, ignored rows and mean are
    # cross-entropy's own, and it also returns the total weight.
    reduction = layout.reduction
    loss, counted = _NLL(probs.scatter_(1, place, -values), labels, weight, _CODES[reduction], ignore_index)

    def weighed(part: Tensor) -> Tensor:
        if weight is not None:
            part.mul_(weight[place])
        if reduction == "mean":
            part.div_(counted)
        return part.masked_fill_(ignored, 0)

    if squares is None:
        # The true class's gradient is minus the sum of the others, times the slope: the row sums to zero.
        scratch = _Scratch(probs.scatter_(1, place, others.neg_()), weighed(factor))
        return loss, partial(_pull_back, scratch)
    at_true = -others * factor - 2 * l2 * true * (others.square() + squares)
    slope = factor + 2 * l2 * (true * others - squares)
    curve = torch.full_like(true, 2 * l2)
    scratch = _Scratch(probs, weighed(slope), weighed(curve), weighed(at_true), place)
    return loss, partial(_pull_back, scratch)


def _times_itself(probs: Tensor, curve: Tensor, slope: Tensor) -> Float[Tensor, "R C"]:
    """Overwrite probabilities p with p (curve p + slope)."""
    size = max(1, BLOCK // probs.shape[1]) if probs.device.type == "cpu" else max(1, len(probs))
    try:
        for block, steep, flat in zip(*(each.split(size) for each in (probs, curve, slope)), strict=True):
            block.mul_(torch.mul(block, steep).add_(flat))
    except RuntimeError:  # many gradients at once (is_grads_batched) do not fit into the scratch
        return probs * (probs * curve + slope)
    return probs


def _pull_back(scratch: _Scratch, grad: Tensor) -> Float[Tensor, "R C"]:
    probs, slope, curve, at_true, place = scratch
    if grad.ndim:
        grad = grad.unsqueeze(1)
    slope = slope * grad
    gradient = scaled(probs, slope) if curve is None else _times_itself(probs, curve * grad, slope)
    if place is None or at_true is None:
        return gradient
    return gradient.scatter_(1, place, at_true * grad)
