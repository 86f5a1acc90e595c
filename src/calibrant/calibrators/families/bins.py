"""Bins of log-odds, for calibrators that are constant in each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from calibrant._math.shapes import Float, Int


def constant_in_bins(
    log_odds: Float[Tensor, "K N"], places: Float[Tensor, "K M"], values: Float[Tensor, "K M"]
) -> Float[Tensor, "K N"]:
    """The value of the bin ``(previous place, place]``; the last has no end."""
    index = number_below(places[:, :-1].contiguous(), log_odds.detach().contiguous())
    return values.gather(1, index)


def number_below(
    places: Float[Tensor, "K M"], values: Float[Tensor, "K N"], *, or_equal: bool = False
) -> Int[Tensor, "K N"]:
    """How many of the ascending places lie below each value (or at it)."""
    if not torch.compiler.is_compiling():
        return torch.searchsorted(places, values, right=or_equal)
    # By halving, without branches: ONNX has no search.
    count, found = places.shape[1], torch.zeros_like(values, dtype=torch.int64)
    step = 1 << max(0, count.bit_length() - 1)
    while step and count:
        further = found + step
        place = places.gather(1, further.clamp(max=count) - 1)
        passed = (place <= values if or_equal else place < values) & (further <= count)
        found = torch.where(passed, further, found)
        step //= 2
    return found


@dataclass(frozen=True, eq=False)
class Ordered:
    """Samples of one event in order of their log-odds, those of equal log-odds as one."""

    log_odds: Float[Tensor, " N"]
    outcomes: Float[Tensor, " N"]
    weights: Float[Tensor, " N"]

    @cached_property
    def _groups(self) -> tuple[Float[Tensor, " G"], Int[Tensor, " N"]]:
        return torch.unique(self.log_odds, return_inverse=True)

    @property
    def points(self) -> Float[Tensor, " G"]:
        """The distinct log-odds, ascending."""
        return self._groups[0]

    @cached_property
    def masses(self) -> Float[Tensor, " G"]:
        """Weight at each point."""
        return self.total(self.weights)

    @cached_property
    def hits(self) -> Float[Tensor, " G"]:
        """Weight of what came true at each point."""
        return self.total(self.weights * self.outcomes)

    @cached_property
    def _middles(self) -> Float[Tensor, " G"]:
        return (self.masses.cumsum(0) - self.masses / 2) / self.masses.sum()

    def total(self, amounts: Float[Tensor, " N"]) -> Float[Tensor, " G"]:
        """Sums of amounts at each point."""
        return amounts.new_zeros(len(self.points)).index_add_(0, self._groups[1], amounts)

    def equal_mass(self, num_bins: int) -> Int[Tensor, " G"]:
        """A bin for each point, none empty, of weights as equal as undivided points allow."""
        bins = (self._middles * num_bins).long().clamp(max=num_bins - 1)
        return torch.unique_consecutive(bins, return_inverse=True)[1]

    def ends(self, bins: Int[Tensor, " G"]) -> Float[Tensor, " M"]:
        """Half-way between a bin's last point and the next one; of the last bin its last point."""
        last = torch.cat([bins[1:] != bins[:-1], bins.new_ones(1).bool()])
        return self._half_ways[last]

    @cached_property
    def _half_ways(self) -> Float[Tensor, " G"]:
        """Between each point and the next; the point itself where rounding leaves nothing between."""
        following = torch.cat([self.points[1:], self.points[-1:]])
        half_way = self.points / 2 + following / 2  # halved first: the sum of two huge numbers is infinite
        return torch.where(half_way < following, half_way, self.points)


def sums_in_bins(amounts: Float[Tensor, " G"], bins: Int[Tensor, " G"], num_bins: int) -> Float[Tensor, " M"]:
    """Sums over the points of each bin."""
    return torch.bincount(bins, weights=amounts, minlength=num_bins)
