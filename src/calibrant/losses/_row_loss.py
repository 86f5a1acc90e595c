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

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calibrant._math.shapes import Float, Int
from calibrant._math.simplex import log_one_minus_softmax, log_softmax
from calibrant._math.true_class import focal_power, focal_value, softplus
from calibrant.losses._closed_form import BLOCK, Pull, by_closed_form, is_traced, times_rows
from calibrant.losses._rows import Layout, Reduction, Rows

GammaRule: TypeAlias = Callable[[Tensor], Tensor]

_LOST = 16  # times the smallest normal number; below, a probability has few digits


class Terms(NamedTuple):
    """What a loss is made of."""

    gamma: float | GammaRule | None  # a number; or a rule that gives each row's from p_t; None: no focal term
    l1: float = 0.0
    l2: float = 0.0


_CROSS_ENTROPY = Terms(0)


def row_loss(rows: Rows, terms: Terms) -> Tensor:
    """The loss described by ``terms``, with everything that cross-entropy takes."""
    if terms == _CROSS_ENTROPY:
        return rows.layout.finish(rows.cross_entropy())
    if rows.soft or not (callable(terms.gamma) or terms.gamma is None or terms.gamma >= 0):
        return rows.reduce(row_values(rows, terms))

    def closed(logits: Tensor) -> tuple[Tensor, Pull]:
        loss, scratch = closed_form(logits, rows[1:], terms)
        return loss, partial(_pull_back, scratch)

    def plain(logits: Tensor) -> Tensor:
        # As the closed form leaves it: in the type that is computed in.
        layout = Layout(rows.layout.reduction, rows.labels.shape, logits.dtype)
        seen = rows._replace(logits=logits, layout=layout)
        return seen.reduce(row_values(seen, terms))

    return rows.layout.finish(by_closed_form(rows.logits, closed, plain))


def row_values(rows: Rows, terms: Terms) -> Float[Tensor, " R"]:
    """The plain form: can be differentiated any number of times, transformed and compiled."""
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


def _focal(log_odds: Float[Tensor, "*R"], gamma: float | GammaRule) -> Float[Tensor, "*R"]:
    if not callable(gamma):
        return focal_value(log_odds, gamma)
    exponent = gamma(torch.sigmoid(log_odds.detach()))
    inverse = (-exponent * torch.sigmoid(log_odds).log1p()).exp()
    power = torch.where(exponent < 0, inverse, focal_power(log_odds, exponent.clamp(min=0)))
    return power * softplus(-log_odds)


def _soft_values(rows: Rows, terms: Terms) -> Float[Tensor, " R"]:
    """Expected loss under the targets; the distances are to the targets themselves."""
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
FEW = 1 << 13  # logits; of more, operations take longer than their calls
_MODERATE = 39.0  # logits; the odds of all against one neither overflow nor vanish in float32
# How aten writes a reduction.
_CODES: dict[Reduction, int] = {"none": 0, "mean": 1, "sum": 2}


def _split(
    logits: Float[Tensor, "R C"], place: Int[Tensor, "R 1"]
) -> tuple[Float[Tensor, "R C"], Float[Tensor, "R 1"], Float[Tensor, "R 1"], Float[Tensor, "R 1"]]:
    """New probabilities without the true class; that one's, the sum of the others, and -log p_t."""
    probs = torch.softmax(logits, 1)
    true = probs.gather(1, place)
    lost = true < _LOST * torch.finfo(true.dtype).tiny
    # Where p_t underflows, its logarithm comes from the largest probability. Whether there is such a row can
    # be asked without waiting on a CPU only.
    needed = logits.device.type != "cpu" or is_traced() or bool(lost.any())
    exact = None
    if needed:
        top = logits.argmax(1, keepdim=True)
        exact = logits.gather(1, top).sub_(logits.gather(1, place)).sub_(probs.gather(1, top).log())
    # A tiny number in place of the true class keeps the sum from being zero.
    others = probs.scatter_(1, place, torch.finfo(true.dtype).tiny).sum(1, keepdim=True)
    misfit = (others / true).log1p_()  # u + p_t = 1
    return probs, true, others, misfit if exact is None else torch.where(lost, exact, misfit)


def _focal_part(gamma: Any, base: Any, misfit: Any, true: Any, over: Any) -> tuple[Any, Any]:
    """The focal term b^|gamma| (-log p) and its factor f, of tensors or arrays; p / b is ``true / over``."""
    power = base ** abs(gamma)
    values = misfit * power
    return values, power + gamma * (values * true) / over


# Labels, weight, ignore_index and layout of the rows.
_Request: TypeAlias = tuple[Tensor, Tensor | None, int, Layout]


class _Scratch(NamedTuple):
    """What the backward pass takes: grad_j = p_j (slope + curve p_j), and the true class apart."""

    probs: Float[Tensor, "R C"]
    slope: Float[Tensor, "R 1"]
    curve: Float[Tensor, "R 1"] | None = None
    at_true: Float[Tensor, "R 1"] | None = None
    place: Int[Tensor, "R 1"] | None = None


def _small_arrays(logits: Float[Tensor, "R C"], request: _Request) -> tuple[Any, Any] | None:
    """Logits and labels as arrays, where these are few rows on the CPU that all count alike.

    Values are looked at here: on a CPU nothing waits for them.
    """
    labels, weight, ignore_index, layout = request
    few = 0 < logits.numel() <= FEW and weight is None and logits.device.type == "cpu"
    if not few or layout.reduction == "none" or ignore_index >= 0 or is_traced():
        return None
    scores, classes = logits.detach().numpy(), labels.numpy()
    # A negative number without its sign is a huge one; wrong labels are refused by torch.
    known = np.maximum.reduce(classes.view(np.uint64)) < logits.shape[1]
    moderate = np.maximum.reduce(scores, None) < _MODERATE and np.minimum.reduce(scores, None) > -_MODERATE
    return (scores, classes) if known and moderate else None


def _small_form(scores: Any, classes: Any, gamma: float, reduction: Reduction) -> tuple[Tensor, _Scratch]:
    """As the closed form, by NumPy: what two dozen operations on few rows take is the calls."""
    with np.errstate(all="ignore"):  # the caller may have set them to raise
        odds = np.exp(scores, order="C")  # no need to subtract the largest
        flat, place = odds.reshape(-1), np.arange(0, odds.size, odds.shape[1]) + classes
        true = flat[place]
        flat[place] = 0
        others = np.add.reduce(odds, 1)
        total = others + true
        misfit = np.log1p(others / true)
        values, factor = _focal_part(gamma, others / total, misfit, true, others)
        counted = len(classes) if reduction == "mean" else 1
        flat[place] = -others  # a row of the gradient sums to zero
        slope = factor / (total * counted)
    loss = torch.from_numpy(np.asarray(np.add.reduce(values) / counted, dtype=odds.dtype))
    return loss, _Scratch(torch.from_numpy(odds), torch.from_numpy(slope[:, None]))


def closed_form(
    logits: Float[Tensor, "R C"], request: _Request, terms: Terms, *, few: bool = True
) -> tuple[Tensor, _Scratch]:
    """The reduced loss, and what its gradient takes."""
    labels, weight, ignore_index, layout = request
    gamma, l1, l2 = terms
    if few and not (gamma is None or callable(gamma) or l1 or l2):
        small = _small_arrays(logits, request)
        if small is not None:
            return _small_form(*small, gamma, layout.reduction)
    column = labels.unsqueeze(1)
    ignored = column == ignore_index
    # A wrong label below zero does not pass for class 0: nll_loss refuses it.
    place = column.clamp(min=0) if ignore_index < 0 else column.masked_fill(ignored, 0)
    probs, true, others, misfit = _split(logits, place)
    if gamma is None:
        values, factor = torch.zeros_like(true), torch.zeros_like(true)
    else:
        base = others
        if callable(gamma):
            gamma = gamma(true)
            base = torch.where(gamma < 0, 1 + true, others)
        values, factor = _focal_part(gamma, base, misfit, true, base)
        factor = torch.where(true == 0, 1, factor)  # the value is infinite there, and 0 * inf no number
    if l1:
        values = values + 2 * l1 * others
        factor = factor + 2 * l1 * true
    squares = None
    if l2:
        squares = torch.linalg.vector_norm(probs, dim=1, keepdim=True).square()  # Q
        values = values + l2 * (others.square() + squares)
    # nll_loss reads the entries of the true classes only; weights, ignored rows and the mean are so
    # cross-entropy's own, and it also tells the weight that was counted.
    reduction = layout.reduction
    loss, counted = _NLL(probs.scatter_(1, place, -values), labels, weight, _CODES[reduction], ignore_index)

    def scaled(part: Tensor) -> Tensor:
        if weight is not None:
            part.mul_(weight[place])
        if reduction == "mean":
            part.div_(counted)
        return part.masked_fill_(ignored, 0)

    if squares is None:
        # In its place minus the others times the slope is the true class's gradient: the row sums to zero.
        return loss, _Scratch(probs.scatter_(1, place, others.neg_()), scaled(factor))
    at_true = -others * factor - 2 * l2 * true * (others.square() + squares)
    slope = factor + 2 * l2 * (true * others - squares)
    curve = torch.full_like(true, 2 * l2)
    return loss, _Scratch(probs, scaled(slope), scaled(curve), scaled(at_true), place)


def _times_itself(probs: Tensor, curve: Tensor, slope: Tensor) -> Float[Tensor, "R C"]:
    """The probabilities times curve times themselves plus slope, in their place."""
    size = max(1, BLOCK // probs.shape[1]) if probs.device.type == "cpu" else max(1, len(probs))
    try:
        for block, steep, flat in zip(*(each.split(size) for each in (probs, curve, slope)), strict=True):
            block.mul_(torch.mul(block, steep).add_(flat))
    except RuntimeError:  # many gradients at once (is_grads_batched) do not fit into the scratch
        return probs * (probs * curve + slope)
    return probs


def _pull_back(scratch: _Scratch, grad: Tensor) -> Float[Tensor, "R C"]:
    """The gradient, in place of the probabilities."""
    probs, slope, curve, at_true, place = scratch
    if grad.ndim:
        grad = grad.unsqueeze(1)
    slope = slope * grad
    gradient = times_rows(probs, slope) if curve is None else _times_itself(probs, curve * grad, slope)
    if place is None or at_true is None:
        return gradient
    return gradient.scatter_(1, place, at_true * grad)
