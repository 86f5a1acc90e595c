"""Multilabel losses: every entry of the logits is a binary event."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Shaped
from calibrant._math.threads import SMALL, in_threads
from calibrant._math.true_class import focal_value
from calibrant.losses._closed_form import BLOCK, Pull, by_closed_form, can_look, scaled
from calibrant.losses._rows import Layout, Reduction, check_is_tensor, check_scores, dtypes_of

Floats: TypeAlias = NDArray[np.floating]


class Entries(NamedTuple):
    """Log-odds in the working precision, with their original labels."""

    logits: Float[Tensor, "*N"]
    labels: Shaped[Tensor, "*N"]
    ignore_index: int
    weight: Float[Tensor, "*#N"] | None
    layout: Layout

    def reduce(self, values: Float[Tensor, "*N"]) -> Tensor:
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
    """Terms of a loss: focal loss, and the squared difference of probability and outcome."""

    gamma: float
    alpha: float | None = None  # the share of what happened; the rest is that of what did not
    distance: float = 0.0


def entry_loss(entries: Entries, terms: EntryTerms) -> Tensor:
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


class _FractionsError(RuntimeError): ...


def _closed_form(entries: Entries, terms: EntryTerms, logits: Tensor) -> tuple[Tensor, Pull]:
    """Reduced loss and its gradient, block by block, in NumPy, which is faster here than torch."""
    _, labels, ignore_index, weight, layout = entries
    scores, known = logits.detach().numpy(), labels.numpy()
    per_entry = None if weight is None else np.broadcast_to(weight.detach().numpy(), scores.shape)
    gradient, values = np.empty_like(scores), np.empty_like(scores)
    size = max(1, BLOCK // max(1, scores[:1].size))

    def fill(start: int) -> float:
        at = slice(start, start + size)
        with np.errstate(all="ignore"):  # the caller may have set them to raise
            outcomes, ignored = _outcomes(known[at], scores.dtype, ignore_index)
            _fill_block(scores[at], outcomes, values[at], gradient[at], terms)
            counted: Any = 1 if ignored is None else ~ignored
            if per_entry is not None:
                values[at] *= per_entry[at]
                gradient[at] *= per_entry[at]
                counted = per_entry[at] * counted
            if ignored is not None:
                values[at][ignored] = 0
                gradient[at][ignored] = 0
            return float(np.sum(counted, dtype=float)) if np.ndim(counted) else outcomes.size

    threads = torch.get_num_threads() if scores.size >= SMALL else 1
    counted = sum(in_threads(fill, range(0, len(scores), size), most=threads))
    slopes = torch.from_numpy(gradient)
    if layout.reduction == "none":
        return torch.from_numpy(values), partial(scaled, slopes)
    total = np.add.reduce(values, None, dtype=float)
    if layout.reduction == "mean":
        total = total / counted if counted else math.nan
        gradient *= 1 / (counted or 1)
    return torch.from_numpy(np.asarray(total, scores.dtype)), partial(scaled, slopes)


def _outcomes(
    labels: NDArray[Any], dtype: np.dtype[Any], ignore_index: int
) -> tuple[Floats, NDArray[np.bool_] | None]:
    """Labels as numbers, and the mask of ignored entries, or None."""
    outcomes = labels.astype(dtype)
    if not 0 <= ignore_index <= 1 and (outcomes * outcomes == outcomes).all():
        return outcomes, None
    happened, ignored = labels == 1, labels == ignore_index
    if labels.dtype.kind == "f" and not ((labels == 0) | happened | ignored).all():
        raise _FractionsError
    return happened.astype(dtype), ignored


def _fill_block(logits: Floats, outcomes: Floats, value: Floats, slope: Floats, terms: EntryTerms) -> None:
    r"""Fill in the values of a block and their derivatives.

    With the log-odds t of the absent outcome, :math:`u = \sigma(t)` and :math:`m = \log(1 + e^t)`,

    .. math:: \ell = u^\gamma m + \lambda u^2, \qquad
              \frac{d\ell}{dt} = u^\gamma (u + \gamma (1 - u) m) + 2 \lambda u^2 (1 - u)
    """
    gamma, alpha, distance = terms
    sign = 1 - 2 * outcomes
    log_odds = sign * logits
    rest = np.log1p(np.exp(-np.abs(log_odds)))
    surprise, log_miss = np.maximum(log_odds, 0) + rest, np.minimum(log_odds, 0) - rest
    miss, power = np.exp(log_miss), np.exp(gamma * log_miss) if gamma else 1
    hit = 1 - miss
    np.multiply(power, surprise, out=value)
    np.multiply(power, miss + gamma * hit * surprise, out=slope)
    if distance:
        squared = distance * miss * miss
        value += squared
        slope += 2 * hit * squared
    if alpha is not None:
        share = outcomes * (2 * alpha - 1) + (1 - alpha)
        value *= share
        slope *= share
    slope *= sign


def as_entries(
    logits: Tensor, labels: Tensor, *, weight: Tensor | None, ignore_index: int, reduction: Reduction
) -> Entries:
    """Check shapes and types, but no values."""
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
