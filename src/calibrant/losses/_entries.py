"""Multilabel losses: every entry of the logits is a binary event."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.machine import SMALL, in_threads
from calibrant._math.shapes import Float, Shaped
from calibrant._math.simplex import focal_value
from calibrant.losses._closed_form import BLOCK, Pull, by_closed_form, can_look, scaled
from calibrant.losses._rows import Layout, Reduction, check_is_tensor, check_scores, dtypes_of


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
    share, rest = (1.0, 1.0) if terms.alpha is None else (terms.alpha, 1 - terms.alpha)
    if labels.is_floating_point():
        outcomes = labels.to(logits.dtype)
        values = share * outcomes * focal_value(logits, terms.gamma)
        values = values + rest * (1 - outcomes) * focal_value(-logits, terms.gamma)
        missed = torch.sigmoid(logits) - outcomes
    else:
        log_odds = torch.where(labels == 1, logits, -logits)
        values, missed = focal_value(log_odds, terms.gamma), torch.sigmoid(-log_odds)
        if terms.alpha is not None:
            values = torch.where(labels == 1, share * values, rest * values)
    return values + terms.distance * missed.square() if terms.distance else values


class _FractionsError(RuntimeError): ...


def _closed_form(entries: Entries, terms: EntryTerms, logits: Tensor) -> tuple[Tensor, Pull]:
    """Reduced loss and its gradient, block by block."""
    from calibrant.losses import _compiled  # numba: imported where it is first needed

    _, labels, ignore_index, weight, layout = entries
    scores, known = (np.ascontiguousarray(each.detach().numpy()) for each in (logits, labels))
    per_row = scores[:1].size
    shares, shape = scores[:0].reshape(-1), (1, -1)
    if weight is not None:
        shares, shape = np.broadcast_to(weight.detach().numpy(), scores.shape[1:]).reshape(-1), (-1, per_row)
    expected = scores.size if weight is None else len(scores) * np.sum(shares, dtype=float)
    reduction = layout.reduction
    unit = 1 / expected if reduction == "mean" and expected else 1.0
    gradient, values = np.empty_like(scores), np.empty_like(scores if reduction == "none" else scores[:0])
    size = max(1, BLOCK // max(1, per_row))
    gamma, alpha, distance = terms
    numbers = float(gamma), float(distance), *((1.0, 1.0) if alpha is None else (float(alpha), 1.0 - alpha))

    def fill(start: int) -> tuple[float, float]:
        at = slice(start, start + size)
        seen, slopes = scores[at].reshape(shape), gradient[at].reshape(shape)
        outcomes = known[at].astype(scores.dtype, copy=False).reshape(shape)
        rests = np.empty_like(seen)
        powers = values[at].reshape(shape) if len(values) else np.empty_like(seen)
        with np.errstate(all="ignore"):  # the caller may have set them to raise
            np.exp(np.copysign(seen, -1, out=slopes), out=slopes)
            _compiled.log_powers(seen, outcomes, slopes, rests, powers, float(gamma))
            np.exp(powers, out=powers)
        total, counted, odd = _compiled.entry_losses(
            seen, outcomes, slopes, rests, powers, shares, float(ignore_index), *numbers, unit
        )
        if odd and known.dtype.kind == "f":
            raise _FractionsError
        return total, counted

    threads = torch.get_num_threads() if scores.size >= SMALL else 1
    filled = in_threads(fill, range(0, len(scores), size), most=threads)
    total, counted = map(sum, zip((0, 0), *filled, strict=True))
    slopes = torch.from_numpy(gradient)
    if reduction == "none":
        return torch.from_numpy(values), partial(scaled, slopes)
    if reduction == "mean":
        total = total / counted if counted else math.nan
        if counted and counted != expected:
            gradient *= 1 / (unit * counted)
    return torch.from_numpy(np.asarray(total, scores.dtype)), partial(scaled, slopes)


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
