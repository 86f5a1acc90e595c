"""Calibration samples, relative to each row's largest logit, and their likelihood by inverse temperature.

Temperature and the focal map keep the order of the classes, so the place of the largest logit is found once.
All else is measured from it, as in ``calibrant._math.simplex``, which keeps the digits of rows that are sure
of themselves. The negative log-likelihood is convex in the inverse temperature, and has two derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import row_slices, scattered
from calibrant._math.checks import Task
from calibrant._math.convex_minimum import Slopes
from calibrant._math.machine import in_threads
from calibrant._math.shapes import Bool, Float, Int
from calibrant._math.simplex import LOG_OF_ZERO, top_class
from calibrant._math.table_kernels import sums_of_powers

LOG_FLOOR = math.log(1e-12)  # replaces a probability of exactly zero
LOG_ODDS_LIMIT = math.log1p(-1e-12) - LOG_FLOOR
_KEPT_ENTRIES = 2**23  # 64 MiB; larger data are recomputed on every pass, block by block
LOG2_E = 1 / math.log(2)
_PIECE = 2**12  # entries that stay in a processor's cache

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows; the other classes' columns are all C, with a huge negative number at the top class.

    Binary problems have one other class and one column.
    """

    below: Float[Tensor, "n K"]  # logits of the others minus the second largest
    second: Float[Tensor, "n 1"]  # second largest logit minus the largest, at most 0
    wrong: Bool[Tensor, "n 1"]  # True if the top class is not the label
    truth: Int[Tensor, "n 1"]  # the label's place if so; else 0
    top: Int[Tensor, "n 1"]  # the top class
    shares: Float[Tensor, " n"]  # of the total weight

    def some(self, chosen: Tensor) -> Block:
        return Block(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def to(self, dtype: torch.dtype) -> Block:
        return replace(
            self, below=self.below.to(dtype), second=self.second.to(dtype), shares=self.shares.to(dtype)
        )


@dataclass(frozen=True, eq=False)
class Samples:
    """One problem: a multiclass one ``(N, C)``, or log-odds ``(N,)`` of an event.

    Calibration concerns the top class, or the event.
    """

    scores: Float[Tensor, "N C"] | Float[Tensor, " N"]
    labels: Int[Tensor, " N"]
    weights: Float[Tensor, " N"] | None
    found: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    """Cached results for several calibrators, by name."""

    def once(self, name: str, find: Callable[[], T]) -> T:
        if name not in self.found:
            self.found[name] = find()
        return self.found[name]

    @property
    def num_samples(self) -> int:
        return self.scores.shape[0]

    @property
    def is_event(self) -> bool:
        return self.scores.ndim == 1

    @property
    def width(self) -> int:
        return 1 if self.is_event else self.scores.shape[1]

    @property
    def is_constant(self) -> bool:
        if self.is_event:
            return not bool(self.scores.any())
        if bool((self.scores[0] != self.scores[0, 0]).any()):
            return False
        low, high = torch.aminmax(self.scores, dim=1)
        return bool((low == high).all())

    @cached_property
    def top(self) -> Int[Tensor, " N"]:
        if self.is_event:
            return (self.scores > 0).to(torch.int64)
        return top_class(self.scores)

    @cached_property
    def correct(self) -> Bool[Tensor, " N"]:
        return self.top == self.labels

    @cached_property
    def mean_gap(self) -> float:
        """Mean difference between the label's logit and the top class's."""
        if self.is_event:
            gaps = torch.where(self.correct, 0, self.scores.to(torch.float64).abs().neg_())
        else:
            label, top = (self.scores.gather(1, place[:, None]) for place in (self.labels, self.top))
            gaps = (label.to(torch.float64) - top.to(torch.float64))[:, 0]
        return float(gaps @ self.shares)

    @cached_property
    def outcomes(self) -> Float[Tensor, " N"]:
        """1 if the event occurred or the top class is right, else 0."""
        return (self.labels if self.is_event else self.correct).to(torch.float64)

    @cached_property
    def shares(self) -> Float[Tensor, " N"]:
        if self.weights is None:
            return torch.full_like(self.labels, 1 / self.num_samples, dtype=torch.float64)
        return self.weights / self.weights.sum()

    @property
    def masses(self) -> Float[Tensor, " N"]:
        return torch.ones_like(self.labels, dtype=torch.float64) if self.weights is None else self.weights

    @property
    def total_weight(self) -> float:
        return float(self.num_samples if self.weights is None else self.weights.sum())

    def judged(self, log_odds_of_top: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        """Log-odds of the event or top class, from those of the top class."""
        if not self.is_event:
            return log_odds_of_top
        return torch.where(self.top == 1, log_odds_of_top, -log_odds_of_top)

    def part(self, chosen: Bool[Tensor, " N"]) -> Self:
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, scores=self.scores[chosen], labels=self.labels[chosen], weights=weights)

    def thinned(self, most: int) -> Self:
        """Subsample of at most ``most`` rows: mean scores of events, or some rows of classes.

        Rows are drawn in proportion to weight, at random from equal stretches of the data, because rows can
        have a periodic order, such as alternating labels.
        """
        if self.num_samples <= most:
            return self
        if self.is_event:
            return self._gathered(most // 2)
        rows = some_rows(self.shares, most)
        return replace(self, scores=self.scores[rows], labels=self.labels[rows], weights=None)

    def _gathered(self, most: int) -> Self:
        """At most ``most`` rows per outcome: neighbouring scores merge into their mean."""
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for label in (0, 1):
            chosen = self.labels == label
            ranked, order = self.scores[chosen].to(torch.float64).sort()
            shares, count = self.shares[chosen][order], len(ranked)
            cell = torch.arange(count, device=ranked.device) * min(most, count) // max(count, 1)
            empty = ranked.new_zeros(min(most, count))
            mass = empty.index_add(0, cell, shares)
            means = empty.index_add(0, cell, shares * ranked) / mass
            parts.append((means, torch.full_like(cell[: len(mass)], label), mass))
        scores, labels, weights = (torch.cat(each) for each in zip(*parts, strict=True))
        return replace(self, scores=scores, labels=labels, weights=weights)

    def blocks(self) -> Iterable[Block]:
        if self.scores.numel() > _KEPT_ENTRIES:
            return map(self.block, row_slices(self.scores))
        return self.once("blocks", lambda: [self.block(rows) for rows in row_slices(self.scores)])

    def block(self, rows: slice) -> Block:
        top, correct, logits = self.top[rows, None], self.correct[rows, None], self.scores[rows]
        if self.is_event:
            second = logits[:, None].to(torch.float64).abs().neg_()
            below, truth = torch.zeros_like(second), torch.zeros_like(top)
        else:
            others = logits.scatter(1, top, -math.inf)
            largest = others.amax(dim=1, keepdim=True).to(torch.float64)
            second = largest - logits.gather(1, top)
            below = others.to(torch.float64).sub_(largest).scatter_(1, top, LOG_OF_ZERO)
            truth = torch.where(correct, 0, self.labels[rows, None])
        return Block(below, second, ~correct, truth, top, self.shares[rows])


def some_rows(shares: Float[Tensor, " N"], most: int) -> Int[Tensor, " {most}"]:
    """Rows in proportion to their weight, one from each of equal stretches."""
    rows = torch.searchsorted(shares.cumsum(0), scattered(most).to(shares))
    return rows.clamp_(max=len(shares) - 1)


def floor_zero_probabilities(scores: Tensor, kind: Task) -> tuple[Tensor, int]:
    """Scores with probabilities of zero replaced by 1e-12 or the row's next smallest, and their number."""
    low, high = torch.aminmax(scores.detach())
    if math.isfinite(low.item()) and math.isfinite(high.item()):
        return scores, 0
    return floored(scores, kind), int(torch.isinf(scores).sum())


def floored(scores: Tensor, kind: Task) -> Tensor:
    """:func:`floor_zero_probabilities` without reading values, for a traced graph."""
    zero = torch.isinf(scores)
    if kind != "multiclass":
        return torch.where(zero, scores.detach().clamp(-LOG_ODDS_LIMIT, LOG_ODDS_LIMIT), scores)
    fixed = scores.detach()
    smallest = torch.where(zero, math.inf, fixed).amin(dim=1, keepdim=True)
    floor = (fixed.logsumexp(dim=1, keepdim=True) + LOG_FLOOR).minimum(smallest)
    return torch.where(zero, floor, scores)


def likelihood_slopes(samples: Samples, inverse_temperature: float) -> Slopes:
    """Mean negative log-likelihood without focal map: convex in the inverse temperature."""
    terms = _likelihood_of_top(_all_sums_below(samples, inverse_temperature), inverse_temperature)
    value, first, second = (torch.dot(term, samples.shares).item() for term in terms)
    gap = samples.mean_gap
    return Slopes(first - gap, second, value - inverse_temperature * gap)


def likelihood_terms(
    block: Block, inverse_temperature: float | Float[Tensor, "*M #n 1"]
) -> Float[Tensor, "*M n 3"]:
    """Negative log-likelihood per row, and two derivatives by the inverse temperature."""
    of_rows = inverse_temperature
    if isinstance(of_rows, torch.Tensor):
        of_rows = of_rows[..., 0]
    value, first, second = _likelihood_of_top(_sums_below(block, inverse_temperature), of_rows)
    gap = torch.where(block.wrong, block.second + block.below.gather(-1, block.truth), 0)[..., 0]
    return torch.stack([value - of_rows * gap, first - gap, second], dim=-1)


_SumsBelow: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]
"""Sums of r, r b and r b squared, and the gap of the second class to the top one, at most 0: ``(*M, n)``.
Here r = exp(beta b) are the other classes' odds against the second."""


def _all_sums_below(samples: Samples, inverse_temperature: float) -> _SumsBelow:
    # Only passes over the table go block by block: operations on few rows are mostly overhead.
    def sums(block: Block) -> _SumsBelow:
        if block.below.device.type != "cpu":
            return _sums_below(block, inverse_temperature)
        below = block.below.numpy()
        found = np.empty((3, len(below)))
        room = np.empty(max(_PIECE, below.shape[1]))
        sums_of_powers(below, inverse_temperature * LOG2_E, room, found)
        total, first, second = torch.from_numpy(found)
        return total, first, second, block.second[:, 0]

    if samples.scores.numel() <= _KEPT_ENTRIES:
        parts = list(in_threads(sums, samples.blocks(), most=torch.get_num_threads()))
    else:
        parts = list(map(sums, samples.blocks()))
    if len(parts) == 1:
        return parts[0]
    total, first, second, gap = (torch.cat(column) for column in zip(*parts, strict=True))
    return total, first, second, gap


def _sums_below(block: Block, inverse_temperature: float | Float[Tensor, "*M #n 1"]) -> _SumsBelow:
    # By powers of two: torch's exp is several times slower if it underflows.
    ratios = (block.below * (inverse_temperature * LOG2_E)).exp2_()
    ones = ratios.new_ones(ratios.shape[-1])  # products with it are faster than short sums
    total, first = ratios @ ones, ratios.mul_(block.below) @ ones
    return total, first, ratios.mul_(block.below) @ ones, block.second[..., 0]


def _likelihood_of_top(
    sums: _SumsBelow, inverse_temperature: float | Float[Tensor, "*M #n"]
) -> tuple[Float[Tensor, "*M n"], Float[Tensor, "*M n"], Float[Tensor, "*M n"]]:
    """Minus the log-probability of the top class, and two derivatives by inverse temperature."""
    total, sum_first, sum_second, gap = sums
    weight = (gap * inverse_temperature).exp_()
    odds = weight * total  # S, at most C - 1
    weight.div_(1 + odds)  # probability of the second class
    # Sums over the others of r times their gap to the top class, and times its square.
    inner = torch.addcmul(sum_first, gap, total)
    first = weight * inner
    second = torch.addcmul(sum_second, gap, inner.add_(sum_first))
    return odds.log1p_(), first, second.mul_(weight).addcmul_(first, first, value=-1)
