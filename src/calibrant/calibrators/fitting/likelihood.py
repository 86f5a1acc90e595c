"""Negative log-likelihood as a function of the inverse temperature: convex, with two derivatives."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.convex_minimum import Slopes
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting.samples import Block, Samples

_LOG2_E = 1 / math.log(2)


def likelihood_slopes(samples: Samples, inverse_temperature: float) -> Slopes:
    """Mean negative log-likelihood without focal map: convex in the inverse temperature."""
    # Only what takes a pass over the table is taken block by block: operations on few rows are mostly calls.
    parts = [_sums_below(block, inverse_temperature, samples.room) for block in samples.blocks()]
    sums = [column[0] if len(column) == 1 else torch.cat(column) for column in zip(*parts, strict=True)]
    terms = _likelihood_of_top(_SumsBelow(*sums), inverse_temperature)
    value, first, second = (torch.dot(term, samples.shares).item() for term in terms)
    gap = samples.mean_gap
    return Slopes(first - gap, second, value - inverse_temperature * gap)


def likelihood(samples: Samples, inverse_temperature: float) -> float:
    """Mean negative log-likelihood without focal map."""
    odds = [
        (block.second * inverse_temperature).exp_()
        * ratios_below(block, inverse_temperature, samples.room).sum(1, keepdim=True)
        for block in samples.blocks()
    ]
    value = torch.cat(odds)[:, 0].log1p_() @ samples.shares
    return float(value) - inverse_temperature * samples.mean_gap


def likelihood_terms(
    block: Block, inverse_temperature: float | Float[Tensor, "*M #n 1"]
) -> Float[Tensor, "*M n 3"]:
    """Negative log-likelihood of each row, and its first and second derivative by the inverse temperature."""
    of_rows = (
        inverse_temperature[..., 0] if isinstance(inverse_temperature, torch.Tensor) else inverse_temperature
    )
    value, first, second = _likelihood_of_top(_sums_below(block, inverse_temperature), of_rows)
    gap = torch.where(block.wrong, block.second + block.below.gather(-1, block.truth), 0)[..., 0]
    return torch.stack([value - of_rows * gap, first - gap, second], dim=-1)


class _SumsBelow(NamedTuple):
    """Sums of r, r b and r b squared; r = exp(beta b) are the other classes' odds against the second."""

    total: Float[Tensor, "*M n"]
    first: Float[Tensor, "*M n"]
    second: Float[Tensor, "*M n"]
    gap: Float[Tensor, "*#M n"]  # of the second class to the top one, at most 0


def _sums_below(
    block: Block, inverse_temperature: float | Float[Tensor, "*M #n 1"], room: Tensor | None = None
) -> _SumsBelow:
    ones = torch.ones_like(block.below[..., 0, :])  # products with it are faster than short sums
    ratios = ratios_below(block, inverse_temperature, room)
    total = _times(ratios, ones)
    first = _times(ratios.mul_(block.below), ones)
    return _SumsBelow(total, first, _times(ratios.mul_(block.below), ones), block.second[..., 0])


def _times(table: Float[Tensor, "*M n K"], ones: Float[Tensor, "*#M K"]) -> Float[Tensor, "*M n"]:
    return torch.mv(table, ones) if table.ndim == 2 else (table @ ones[..., None])[..., 0]


def ratios_below(
    block: Block, inverse_temperature: float | Float[Tensor, "*M #n 1"], room: Tensor | None
) -> Float[Tensor, "*M n K"]:
    """Odds of the others against the second class, in ``room`` if that is given."""
    # By powers of two: where nothing is left of a class, torch's exp takes several times as long.
    out = None if room is None else room[: len(block.below)]
    return torch.mul(block.below, inverse_temperature * _LOG2_E, out=out).exp2_()


def _likelihood_of_top(
    sums: _SumsBelow, inverse_temperature: float | Float[Tensor, "*M #n"]
) -> tuple[Float[Tensor, "*M n"], Float[Tensor, "*M n"], Float[Tensor, "*M n"]]:
    """Minus the log-probability of the top class, and its derivatives by the inverse temperature."""
    weight = (sums.gap * inverse_temperature).exp_()
    odds = weight * sums.total  # S, at most C - 1
    weight.div_(1 + odds)  # probability of the second class
    # Sums over the others of r times their gap to the top class, and times its square.
    inner = torch.addcmul(sums.first, sums.gap, sums.total)
    first = weight * inner
    second = torch.addcmul(sums.second, sums.gap, inner.add_(sums.first))
    return odds.log1p_(), first, second.mul_(weight).addcmul_(first, first, value=-1)
