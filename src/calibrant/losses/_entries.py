"""Multilabel losses: every entry of the logits is a binary event."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Shaped
from calibrant._math.true_class import focal_value, softplus
from calibrant.losses._closed_form import BLOCK, Pull, by_closed_form, can_look, scaled
from calibrant.losses._row_loss import FEW
from calibrant.losses._rows import Layout, Reduction, check_is_tensor, check_scores, dtypes_of


class Entries(NamedTuple):
    """Log-odds in the type that is computed in, with their labels as they came."""

    logits: Float[Tensor, "*N"]
    labels: Shaped[Tensor, "*N"]
    ignore_index: int
    weight: Float[Tensor, "*#N"] | None
    layout: Layout

    def reduce(self, values: Float[Tensor, "*N"]) -> Tensor:
        """The result, from a value per entry that is not yet weighted."""
        ignored = self.labels == self.ignore_index
        values = values.masked_fill(ignored, 0)
        if self.weight is not None:
            values = values * self.weight
        if self.layout.reduction == "none":
            return values
        total = values.sum()
        if self.layout.reduction == "mean":
            counted = ~ignored if self.weight is None else self.weight.masked_fill(ignored, 0)
            total = total / counted.sum()
        return total


class EntryTerms(NamedTuple):
    """What a loss is made of: focal loss, and the squared difference of probability and outcome."""

    gamma: float
    alpha: float | None = None  # the share of what happened; the rest is that of what did not
    distance: float = 0.0


def entry_loss(entries: Entries, terms: EntryTerms) -> Tensor:
    """The loss described by ``terms``, with everything that the multilabel losses take."""
    logits, labels, _, weight, layout = entries

    def plain(logits: Tensor) -> Tensor:
        return entries.reduce(_plain_values(entries._replace(logits=logits), terms))

    fixed = not (labels.requires_grad or (weight is not None and weight.requires_grad))
    if terms.gamma < 0 or not fixed or not logits.ndim or not can_look(logits, labels, weight):
        return layout.finish(plain(logits))
    return layout.finish(by_closed_form(logits, partial(_closed_form, entries, terms), plain))


def _plain_values(entries: Entries, terms: EntryTerms) -> Float[Tensor, "*N"]:
    logits, labels = entries[:2]
    if labels.is_floating_point():
        outcomes = labels.to(logits.dtype)
        values = outcomes * focal_value(logits, terms.gamma)
        values = values + (1 - outcomes) * focal_value(-logits, terms.gamma)
        missed = torch.sigmoid(logits) - outcomes
    else:
        outcomes = (labels == 1).to(logits.dtype)
        log_odds = torch.where(labels == 1, logits, -logits)
        values, missed = focal_value(log_odds, terms.gamma), torch.sigmoid(-log_odds)
    if terms.alpha is not None:
        values = values * (terms.alpha * outcomes + (1 - terms.alpha) * (1 - outcomes))
    return values + terms.distance * missed.square() if terms.distance else values


class _FractionsError(RuntimeError):
    """Floating-point labels other than 0 and 1: the plain form takes over."""


def _closed_form(entries: Entries, terms: EntryTerms, logits: Tensor) -> tuple[Tensor, Pull]:
    """The reduced loss and its gradient, block by block."""
    _, labels, ignore_index, weight, layout = entries
    if weight is None and logits.numel() <= FEW:
        return _few(entries, terms, logits)
    # Nearly always everything counts: the mean's divisor is put right afterwards where not.
    expected = counted = logits.numel() if weight is None else float(weight.expand_as(logits).sum())
    factor = 1 / expected if layout.reduction == "mean" and expected else 1.0
    gradient = torch.empty_like(logits)
    sums = [] if len(logits) else [logits.new_zeros(())]
    values = torch.empty_like(logits) if layout.reduction == "none" else None
    size = max(1, BLOCK // max(1, logits[:1].numel()))
    for start in range(0, len(logits), size):
        at = slice(start, start + size) if len(logits) > size else ...
        given, slope = labels[at], gradient[at]
        outcomes, ignored = _outcomes(given, slope, ignore_index)
        value = _block_form(logits[at], outcomes, slope, terms, factor)
        if weight is not None:
            value, slope = value.mul_(weight), slope.mul_(weight)
        if ignored is not None:
            value, slope = value.masked_fill_(ignored, 0), slope.masked_fill_(ignored, 0)
            counted -= float((ignored if weight is None else ignored * weight).sum())
        if values is None:
            sums.append(value.sum())
        else:
            values[at] = value
    if values is not None:
        return values, partial(scaled, gradient)
    total = sums[0] if len(sums) == 1 else torch.stack(sums).sum()
    if layout.reduction == "mean":
        total = total / counted
        if counted not in (0, expected):
            gradient *= expected / counted
    return total, partial(scaled, gradient)


def _few(entries: Entries, terms: EntryTerms, logits: Tensor) -> tuple[Tensor, Pull]:
    """The same in one compiled pass."""
    from calibrant.losses._compiled import entry_losses  # numba: imported where it is first needed

    _, labels, ignore_index, _, (reduction, *_) = entries
    labels = labels.to(logits.dtype if labels.is_floating_point() else torch.int64)
    scores, known = (np.ascontiguousarray(each.detach().numpy()).reshape(-1) for each in (logits, labels))
    shares = (1.0, 1.0) if terms.alpha is None else (float(terms.alpha), 1 - float(terms.alpha))
    values, slopes = np.empty_like(scores), np.empty_like(scores)
    gamma, distance = float(terms.gamma), float(terms.distance)
    counted = entry_losses(scores, known, ignore_index, gamma, *shares, distance, values, slopes)
    gradient = torch.from_numpy(slopes).view(logits.shape)
    if reduction == "none":
        return torch.from_numpy(values).view(logits.shape), partial(scaled, gradient)
    total = torch.from_numpy(np.asarray(np.add.reduce(values, dtype=np.float64), scores.dtype))
    if reduction == "mean":
        total, gradient = total / counted, gradient.div_(max(counted, 1))
    return total, partial(scaled, gradient)


def _outcomes(labels: Tensor, like: Tensor, ignore_index: int) -> tuple[Tensor, Tensor | None]:
    """The labels as numbers, and which entries are ignored, if there are any."""
    if labels.is_floating_point():
        outcomes = labels.to(like.dtype)
        plain = torch.equal(outcomes * outcomes, outcomes)
    else:
        outcomes = torch.empty_like(like).copy_(labels)
        unsigned = labels.numpy().view(f"u{labels.element_size()}")  # where -1 is a large number
        plain = unsigned.max(initial=0) <= 1
    if plain and not 0 <= ignore_index <= 1:
        return outcomes, None
    happened, ignored = labels == 1, labels == ignore_index
    if labels.is_floating_point() and not ((labels == 0) | happened | ignored).all():
        raise _FractionsError
    return happened.to(like.dtype), ignored


def _block_form(
    logits: Tensor, outcomes: Tensor, slope: Tensor, terms: EntryTerms, factor: float
) -> Float[Tensor, "*N"]:
    r"""The values of a block; its gradient, by ``factor``, goes to ``slope``.

    With the log-odds t of what did not happen, :math:`u = \sigma(t)` and :math:`m = \log(1 + e^t)`,

    .. math:: \ell = u^\gamma m + \lambda u^2, \qquad
              \frac{d\ell}{dt} = u^\gamma (u + \gamma (1 - u) m) + 2 \lambda u^2 (1 - u)
    """
    gamma, alpha, distance = terms
    log_odds = torch.addcmul(logits, logits, outcomes, value=-2, out=slope)
    miss, surprise = torch.sigmoid(log_odds), softplus(log_odds)
    power, hit = miss**gamma, torch.sub(1, miss, out=slope)
    value = power * surprise
    pulled = torch.add(miss, surprise.mul_(hit), alpha=gamma, out=surprise).mul_(power)
    if distance:
        squared = miss.square_()
        value.add_(squared, alpha=distance)
        pulled.addcmul_(hit, squared, value=2 * distance)
    if alpha is not None:
        share = outcomes * (2 * alpha - 1) + (1 - alpha)
        value.mul_(share)
        pulled.mul_(share)
    torch.addcmul(pulled, pulled, outcomes, value=-2, out=slope)
    if factor != 1:
        slope.mul_(factor)
    return value


def as_entries(
    logits: Tensor, labels: Tensor, *, weight: Tensor | None, ignore_index: int, reduction: Reduction
) -> Entries:
    """Check shapes and types, never values."""
    check_scores(logits, reduction)
    check_is_tensor(labels, "labels")
    if labels.shape != logits.shape:
        raise InputError(
            f"`labels` must have the shape of `logits`, {tuple(logits.shape)}, one 0 or 1 per label; "
            f"got {tuple(labels.shape)}."
        )
    if weight is not None:
        check_is_tensor(weight, "weight")
        if logits.ndim < 2 or weight.shape != logits.shape[1:2]:
            shape = tuple(logits.shape[1:2])
            raise InputError(
                f"`weight` must have one entry per label, shape {shape}; got {tuple(weight.shape)}."
            )
        weight = weight.reshape(-1, *[1] * (logits.ndim - 2))
    computed, answered = dtypes_of(logits)
    return Entries(
        logits.to(computed),
        labels,
        ignore_index,
        weight if weight is None else weight.to(computed),
        Layout(reduction, logits.shape, answered),
    )
