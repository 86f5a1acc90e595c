"""The best point of a grid of temperatures and exponents, without computing the objective everywhere.

At a fixed exponent everything is a smooth function of log T: the objective itself where it has derivatives,
and for a binned objective the mean residual and each sample's log-odds. These are computed at a few
temperatures and interpolated at the others by a spline of degree five; the best points by that are computed
exactly. A binned objective is nowhere below the size of the mean residual, which rules out most of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from calibrant._math.binning import mass_boundaries
from calibrant.calibrators._objectives import (
    BINNED,
    NUM_BINS,
    Objective,
    log_odds_of_top,
    objective_value,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from numpy.typing import NDArray
    from torch import Tensor

    from calibrant.calibrators._objectives import Vector
    from calibrant.calibrators._samples import Samples

_DEGREE = 5
# Distance in log T of the temperatures computed. A confidence changes over about one, a mean less.
_SPACING, _SPACING_OF_MEANS = 0.1, 0.3
_ERROR_OF_MEANS = 3e-3  # that interpolation may leave in the mean residual
_MOST_EXACT = 64
_BATCH_ENTRIES = 2**20


@dataclass(frozen=True, order=True)
class Candidate:
    """A point and its objective; among equally good ones the first of the grid is the least."""

    value: float
    place: int  # in its grid
    temperature: float
    gamma: float


def best_on_grid(
    samples: Samples,
    objective: Objective,
    gammas: Sequence[float],
    temperatures: Sequence[float],
    *,
    best: Candidate | None = None,
) -> tuple[Candidate, int]:
    """The smallest objective over all pairs (the first of equals), and how many pairs were computed exactly.

    Of a binned objective it is the smallest as long as interpolation puts at most one sample in the wrong
    bin. Where no pair is better than ``best``, that is returned.
    """
    points = [(temperature, gamma) for gamma in gammas for temperature in temperatures]
    guesses, slack, most = np.zeros(len(points)), 0.0, len(points)  # all of them
    if len(temperatures) > 2 * len(_nodes(temperatures, _SPACING_OF_MEANS)):
        most = _MOST_EXACT
        if objective in BINNED:
            slack = 2 * float(samples.shares.max())  # what one sample in another bin can change
            guesses = _screen_binned(samples, objective, gammas, temperatures, best)
        else:
            guesses = _screen_smooth(samples, objective, gammas, temperatures)
    computed, worst_miss = 0, 0.0
    order = np.argsort(guesses, kind="stable")[: min(most, int(np.isfinite(guesses).sum()))]
    for place in order.tolist():
        if best is not None and guesses[place] - slack - 2 * worst_miss > best.value:
            break
        temperature, gamma = points[place]
        value = objective_value(samples, objective, temperature, gamma)
        found = Candidate(value, place, temperature, gamma)
        best = found if best is None else min(best, found)
        computed += 1
        if most < len(points):
            worst_miss = max(worst_miss, abs(value - float(guesses[place])))
    if best is None:
        raise ValueError("the grid is empty")
    return best, computed


def _nodes(temperatures: Sequence[float], spacing: float) -> Vector:
    """Logarithms of the temperatures to compute at."""
    low, high = math.log(min(temperatures)), math.log(max(temperatures))
    return np.linspace(low, high, max(_DEGREE + 1, math.ceil((high - low) / spacing) + 1))


def _interpolation(nodes: Vector, temperatures: Sequence[float]) -> NDArray[np.float64]:
    """Matrix (temperatures, nodes) that takes values at the nodes to values at the temperatures."""
    from scipy.interpolate import make_interp_spline

    return make_interp_spline(nodes, np.eye(len(nodes)), k=_DEGREE)(np.log(temperatures))


def _screen_smooth(
    samples: Samples, objective: Objective, gammas: Sequence[float], temperatures: Sequence[float]
) -> Vector:
    """Interpolated objective at all pairs."""
    nodes = _nodes(temperatures, _SPACING_OF_MEANS)
    matrix = _interpolation(nodes, temperatures)
    tables = [
        [objective_value(samples, objective, temperature, gamma) for temperature in np.exp(nodes).tolist()]
        for gamma in gammas
    ]
    return np.concatenate([matrix @ np.array(table) for table in tables])


def _screen_binned(
    samples: Samples,
    objective: Objective,
    gammas: Sequence[float],
    temperatures: Sequence[float],
    best: Candidate | None,
) -> Vector:
    """Objective at the pairs that may be best, from interpolated log-odds; infinity at the others."""
    bounds = _least_possible(samples, gammas, temperatures)
    row, place = divmod(int(bounds.argmin()), len(temperatures))
    ceiling = objective_value(samples, objective, temperatures[place], gammas[row])
    ceiling = ceiling if best is None else min(ceiling, best.value)
    groups = _Groups.of(samples)
    guesses = np.full(bounds.shape, math.inf)
    for row, gamma in enumerate(gammas):
        near = np.flatnonzero(bounds[row] <= ceiling)
        if len(near) <= _DEGREE:  # not worth interpolating
            guesses[row, near] = bounds[row, near]
            continue
        chosen = [temperatures[place] for place in near.tolist()]
        nodes = _nodes(chosen, _SPACING)
        table = groups.representatives(_judged_log_odds(samples, (gamma,), np.exp(nodes).tolist())[0])
        matrix = torch.from_numpy(_interpolation(nodes, chosen)).to(torch.float32)
        errors = groups.width_errors if objective == "ece" else groups.mass_errors
        batches = matrix.split(max(1, _BATCH_ENTRIES // samples.num_samples))
        guesses[row, near] = torch.cat([errors(rows @ table) for rows in batches]).numpy()
    return guesses.reshape(-1)


def _least_possible(
    samples: Samples, gammas: Sequence[float], temperatures: Sequence[float]
) -> NDArray[np.float64]:
    """Lower bounds of a calibration error at all pairs: the size of the mean residual, interpolated."""
    nodes = _nodes(temperatures, _SPACING_OF_MEANS)
    log_odds = _judged_log_odds(samples, gammas, np.exp(nodes).tolist())
    shares = samples.shares.cpu()
    residuals = log_odds.sigmoid_() @ shares.to(torch.float32) - samples.outcomes.cpu() @ shares
    at_nodes = residuals.numpy().astype(np.float64)
    return np.maximum(np.abs(at_nodes @ _interpolation(nodes, temperatures).T) - _ERROR_OF_MEANS, 0)


def _judged_log_odds(
    samples: Samples, gammas: Sequence[float], temperatures: Sequence[float]
) -> Float[Tensor, "gammas temperatures N"]:
    """Log-odds of what is judged, in float32 on the CPU."""
    table = torch.empty(len(gammas), len(temperatures), samples.num_samples)
    start = 0
    for block in samples.blocks():
        narrow = block.to(torch.float32)
        rows = slice(start, start + len(block.shares))
        for place, temperature in enumerate(temperatures):
            table[:, place, rows] = torch.stack(log_odds_of_top(narrow, temperature, gammas)).cpu()
        start = rows.stop
    if samples.is_event:
        table *= torch.where(samples.top == 1, 1.0, -1.0).cpu()
    return table


@dataclass(frozen=True, eq=False)
class _Groups:
    """Samples of equal log-odds put together, so that interpolation cannot tear them apart."""

    members: Int[Tensor, " G"] | None  # one sample of each group; None where each is its own
    sizes: Float[Tensor, " G"]  # number of samples, or weight
    outcomes: Float[Tensor, " G"]  # summed with weights
    targets: Float[Tensor, " bins-1"]  # cumulative sizes at which bins of equal mass end
    is_weighted: bool

    @staticmethod
    def of(samples: Samples) -> _Groups:
        log_odds = torch.cat([log_odds_of_top(block, 1.0, (0.0,))[0] for block in samples.blocks()])
        values, group = torch.unique(samples.judged(log_odds).cpu(), return_inverse=True)
        outcomes = samples.outcomes.cpu()
        sizes = torch.ones_like(outcomes) if samples.weights is None else samples.weights.cpu()
        outcomes = outcomes * sizes
        members = None
        if len(values) < samples.num_samples:
            members = torch.zeros_like(group[: len(values)]).scatter_(0, group, torch.arange(len(group)))
            outcomes = torch.bincount(group, outcomes, len(values))
            sizes = torch.bincount(group, sizes, len(values))
        if samples.weights is None:
            targets = mass_boundaries(samples.num_samples, NUM_BINS)[1:-1].to(torch.float64)
        else:
            targets = torch.arange(1, NUM_BINS, dtype=torch.float64) / NUM_BINS * sizes.sum()
        return _Groups(members, sizes, outcomes, targets, samples.weights is not None)

    def representatives(self, table: Float[Tensor, "M N"]) -> Float[Tensor, "M G"]:
        """One column for each group."""
        return table if self.members is None else table[:, self.members]

    def width_errors(self, log_odds: Float[Tensor, "J G"]) -> Float[Tensor, " J"]:
        """Calibration error over bins of equal width, of each row."""
        confidences = log_odds.sigmoid()
        bins = (confidences * NUM_BINS).ceil_().sub_(1).clamp_(0, NUM_BINS - 1).to(torch.int64)
        bins += NUM_BINS * torch.arange(len(bins))[:, None]
        residuals = torch.addcmul(self.outcomes, self.sizes, confidences.to(torch.float64), value=-1)
        sums = torch.bincount(bins.view(-1), residuals.view(-1), minlength=NUM_BINS * len(bins))
        return sums.view(-1, NUM_BINS).abs().sum(dim=1) / self.sizes.sum()

    def mass_errors(self, log_odds: Float[Tensor, "J G"]) -> Float[Tensor, " J"]:
        """Calibration error over bins of equal mass, of each row."""
        order = _order(log_odds)
        confidences = log_odds.gather(1, order).sigmoid()
        sizes = self.sizes[order]
        reached = sizes.cumsum(dim=1)
        residuals = torch.addcmul(self.outcomes[order], sizes, confidences.to(torch.float64), value=-1)
        cumulative = residuals.cumsum(dim=1)
        targets = self.targets.expand(len(order), -1).contiguous()
        last = torch.searchsorted(reached, targets * (1 - 1e-12)).clamp_(max=reached.shape[1] - 1)
        ends = cumulative.gather(1, last)
        if not self.is_weighted:  # a bin may end inside a group, whose residual is shared
            beyond = reached.gather(1, last) - targets
            ends -= beyond / sizes.gather(1, last) * residuals.gather(1, last)
        zero = torch.zeros(len(ends), 1, dtype=ends.dtype)
        return torch.diff(ends, prepend=zero, append=cumulative[:, -1:]).abs().sum(dim=1) / self.sizes.sum()


def _order(values: Float[Tensor, "J G"]) -> Int[Tensor, "J G"]:
    """Ascending order of each row: sorting numbers that carry their place is faster than argsort."""
    bits = values.numpy().view(np.int32)
    keys = np.where(bits < 0, np.int32(-(2**31)) - bits, bits).astype(np.int64) << 32
    keys |= np.arange(values.shape[1])
    keys.sort(axis=1)
    return torch.from_numpy(keys & (2**32 - 1))
