"""Best point of a grid of temperatures and exponents, without the objective at every point.

At a fixed exponent everything is a smooth function of log T: the objective itself where it has derivatives,
and for an error of the confidences judged the mean residual and each sample's log-odds. These are computed at
a few temperatures and interpolated at the others by a spline of degree five; the best points by that are
computed exactly. Such an error is nowhere below the size of the mean residual, which rules out most of the
grid. The classwise error, a mean over many bins, whose jumps are small, is itself interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.binning import REACHED, bin_of_scaled, mass_boundaries
from calibrant._math.errors import InputError
from calibrant._math.newton import Vector
from calibrant._math.shapes import Float, Int
from calibrant.calibrators.fitting.objectives import (
    BINNED,
    JUDGED,
    NUM_BINS,
    Objective,
    log_odds_of_top,
    objective_value,
)
from calibrant.calibrators.fitting.samples import Samples

_DEGREE = 5
# Distance in log T of the temperatures computed. A confidence changes over about one, a mean less.
_SPACING, _SPACING_OF_MEANS = 0.1, 0.3
_ERROR_OF_MEANS = 3e-3  # interpolation error of the mean residual
_ROWS_OF_MEANS, _ERRORS_OF_MEANS = 1024, 4.0  # in the subsample, and its tolerance in standard errors
_MOST_EXACT = 64
_BATCH_ENTRIES = 2**20

Point: TypeAlias = tuple[float, float]  # temperature, exponent


class Place(NamedTuple):
    """Parameters with their objective."""

    gamma: float
    temperature: float
    value: float


def best_on_grid(
    samples: Samples,
    objective: Objective,
    gammas: Sequence[float],
    temperatures: Sequence[float],
    *,
    best: Place | None = None,
) -> tuple[Place, int]:
    """Smallest objective over all pairs (the first of equals), and the number of exact evaluations.

    For an objective with jumps, the result is exact under two conditions. Interpolation puts at most one
    sample in the wrong bin, and the mean confidence of a subsample is within four standard errors of the
    full mean. If no pair improves on ``best``, the result is ``best``.
    """
    points = [(temperature, gamma) for gamma in gammas for temperature in temperatures]
    guesses = None  # compute all of them
    if len(temperatures) > 2 * len(_nodes(temperatures, _SPACING_OF_MEANS)):
        if objective in JUDGED:
            guesses = _screen_judged(samples, objective, gammas, temperatures, best)
        else:
            guesses = _screen_smooth(samples, objective, gammas, temperatures)
    return _best_of(samples, objective, points, guesses, best)


def best_on_line(
    samples: Samples, objective: Objective, points: Sequence[Point], *, best: Place
) -> tuple[Place, int]:
    """:func:`best_on_grid` over points along a smooth curve, in the order of their exponents."""
    guesses = None
    if objective in JUDGED and len(points) > _DEGREE:
        guesses = _screen_line(samples, objective, points)
    return _best_of(samples, objective, points, guesses, best)


def _best_of(
    samples: Samples,
    objective: Objective,
    points: Sequence[Point],
    guesses: Vector | None,
    best: Place | None,
) -> tuple[Place, int]:
    """Best of all points, or of those that the guesses do not rule out, in ascending order of guesses."""
    order: Sequence[int] = range(len(points))
    slack, worst_miss = 0.0, 0.0
    if guesses is not None:
        likely = np.argsort(guesses, kind="stable")[:_MOST_EXACT]
        order = likely[np.isfinite(guesses[likely])].tolist()
        if objective in BINNED:
            slack = 2 * float(samples.shares.max())  # largest effect of one sample in another bin
    ceiling = math.inf if best is None else best.value
    found: tuple[float, int] | None = None  # the objective, and the place in the grid
    computed = 0
    for place in order:
        if guesses is not None and guesses[place] - slack - 2 * worst_miss > ceiling:
            break
        value = objective_value(samples, objective, *points[place])
        found = (value, place) if found is None else min(found, (value, place))
        ceiling = min(ceiling, value)
        computed += 1
        if guesses is not None:
            worst_miss = max(worst_miss, abs(value - float(guesses[place])))
    if found is not None and (best is None or found[0] < best.value):
        temperature, gamma = points[found[1]]
        best = Place(gamma, temperature, found[0])
    if best is None:
        raise InputError("the grid must hold a point or more; got none.")
    return best, computed


def _nodes(temperatures: Sequence[float], spacing: float) -> Vector:
    low, high = math.log(min(temperatures)), math.log(max(temperatures))
    return np.linspace(low, high, max(_DEGREE + 1, math.ceil((high - low) / spacing) + 1))


def _interpolation(nodes: Vector, places: Vector) -> NDArray[np.float64]:
    """Matrix (places, nodes) that takes values at the nodes to values at the places."""
    from scipy.interpolate import make_interp_spline

    return make_interp_spline(nodes, np.eye(len(nodes)), k=_DEGREE)(places)


def _screen_smooth(
    samples: Samples, objective: Objective, gammas: Sequence[float], temperatures: Sequence[float]
) -> Vector:
    nodes = _nodes(temperatures, _SPACING_OF_MEANS)
    matrix = _interpolation(nodes, np.log(temperatures))
    places = np.exp(nodes).tolist()
    tables = [[objective_value(samples, objective, place, gamma) for place in places] for gamma in gammas]
    return np.concatenate([matrix @ np.array(table) for table in tables])


def _screen_judged(
    samples: Samples,
    objective: Objective,
    gammas: Sequence[float],
    temperatures: Sequence[float],
    best: Place | None,
) -> Vector:
    """Objective at candidate pairs, from interpolated log-odds; infinity elsewhere."""
    residuals, bounds = _least_possible(samples, gammas, temperatures)
    row, place = divmod(int(np.abs(residuals).argmin()), len(temperatures))
    ceiling = objective_value(samples, objective, temperatures[place], gammas[row])
    ceiling = ceiling if best is None else min(ceiling, best.value)
    groups = TiedSamples.of(samples)
    guesses = np.full(bounds.shape, math.inf)
    for row, gamma in enumerate(gammas):
        near = np.flatnonzero(bounds[row] <= ceiling)
        if len(near) <= _DEGREE:  # not worth interpolating
            guesses[row, near] = bounds[row, near]
            continue
        chosen = [temperatures[place] for place in near.tolist()]
        nodes = _nodes(chosen, _SPACING)
        table = groups.representatives(judged_log_odds(samples, (gamma,), np.exp(nodes).tolist())[0])
        matrix = _interpolation(nodes, np.log(chosen))
        guesses[row, near] = interpolated_errors(groups, objective, matrix, table)
    return guesses.reshape(-1)


def _screen_line(samples: Samples, objective: Objective, points: Sequence[Point]) -> Vector:
    temperatures, gammas = np.array(points).T
    nodes = _line_nodes(points)
    log_odds = torch.cat(
        [judged_log_odds(samples, (gammas[node],), (temperatures[node],))[0] for node in nodes.tolist()]
    )
    groups = TiedSamples.of(samples)
    matrix = _interpolation(gammas[nodes], gammas)
    return interpolated_errors(groups, objective, matrix, groups.representatives(log_odds))


def _line_nodes(points: Sequence[Point]) -> NDArray[np.int64]:
    """Points to evaluate, about one spacing apart in log T and log(1 + gamma) together."""
    temperatures, gammas = np.array(points).T
    steps = np.abs(np.diff(np.log(temperatures))) + np.abs(np.diff(np.log1p(gammas)))
    travelled = np.concatenate([[0.0], np.cumsum(steps)])
    num_nodes = max(_DEGREE + 1, math.ceil(travelled[-1] / _SPACING) + 1)
    nodes = np.unique(np.searchsorted(travelled, np.linspace(0, travelled[-1], num_nodes)))
    return nodes if len(nodes) > _DEGREE else np.arange(len(points))


def interpolated_errors(
    groups: TiedSamples, objective: Objective, matrix: Vector, table: Float[Tensor, "nodes G"]
) -> Vector:
    batches = torch.from_numpy(matrix).to(torch.float32).split(max(1, _BATCH_ENTRIES // table.shape[1]))
    return torch.cat([groups.errors(objective, rows @ table) for rows in batches]).numpy()


def _least_possible(
    samples: Samples, gammas: Sequence[float], temperatures: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean residuals at all pairs, interpolated, and lower bounds on the error: their sizes less a tolerance.

    With many rows of classes, a subsample gives the mean confidence, within four standard errors.
    """
    nodes = _nodes(temperatures, _SPACING_OF_MEANS)
    some = samples if samples.is_event else samples.thinned(_ROWS_OF_MEANS)
    confidences = judged_log_odds(some, gammas, np.exp(nodes).tolist()).sigmoid_().to(torch.float64)
    shares = some.shares.cpu()
    means = confidences @ shares
    missed = _ERROR_OF_MEANS
    if some is not samples:
        spread = ((confidences - means.unsqueeze(-1)).square() @ shares.square()).amax().sqrt()
        missed += _ERRORS_OF_MEANS * float(spread)
    happened = float(samples.outcomes @ samples.shares)
    residuals = (means.numpy() - happened) @ _interpolation(nodes, np.log(temperatures)).T
    return residuals, np.maximum(np.abs(residuals) - missed, 0)


def judged_log_odds(
    samples: Samples, gammas: Sequence[float], temperatures: Sequence[float]
) -> Float[Tensor, "gammas temperatures N"]:
    """Log-odds of the top class or event, in float32 on the CPU."""
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
class TiedSamples:
    """Groups of samples with equal log-odds, so that interpolation cannot separate them."""

    members: Int[Tensor, " G"] | None  # one sample of each group; None where each is its own
    sizes: Float[Tensor, " G"]  # number of samples, or weight
    outcomes: Float[Tensor, " G"]  # summed with weights
    targets: Float[Tensor, " B"]  # cumulative sizes at which bins of equal mass end
    is_weighted: bool

    @staticmethod
    def of(samples: Samples) -> TiedSamples:
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
        return TiedSamples(members, sizes, outcomes, targets, samples.weights is not None)

    def representatives(self, table: Float[Tensor, "M N"]) -> Float[Tensor, "M G"]:
        return table if self.members is None else table[:, self.members]

    def errors(self, objective: Objective, log_odds: Float[Tensor, "J G"]) -> Float[Tensor, " J"]:
        if objective == "smce":
            from calibrant._math.lipschitz import smooth_calibration_error  # numba

            outcomes, sizes = (self.outcomes / self.sizes).numpy(), self.sizes.numpy()
            rows = log_odds.sigmoid().to(torch.float64).numpy()
            return torch.tensor([smooth_calibration_error(row, outcomes, sizes) for row in rows])
        return self._width_errors(log_odds) if objective == "ece" else self._mass_errors(log_odds)

    def _width_errors(self, log_odds: Float[Tensor, "J G"]) -> Float[Tensor, " J"]:
        confidences = log_odds.sigmoid()
        # Edges in float32 suffice: this only selects points for the exact error.
        bins = bin_of_scaled(confidences * NUM_BINS, NUM_BINS).to(torch.int64)
        bins += NUM_BINS * torch.arange(len(bins))[:, None]
        residuals = torch.addcmul(self.outcomes, self.sizes, confidences.to(torch.float64), value=-1)
        sums = torch.bincount(bins.view(-1), residuals.view(-1), minlength=NUM_BINS * len(bins))
        return sums.view(-1, NUM_BINS).abs().sum(dim=1) / self.sizes.sum()

    def _mass_errors(self, log_odds: Float[Tensor, "J G"]) -> Float[Tensor, " J"]:
        order = _order(log_odds)
        confidences = log_odds.gather(1, order).sigmoid()
        sizes = self.sizes[order]
        reached = sizes.cumsum(dim=1)
        residuals = torch.addcmul(self.outcomes[order], sizes, confidences.to(torch.float64), value=-1)
        cumulative = residuals.cumsum(dim=1)
        targets = self.targets.expand(len(order), -1).contiguous()
        last = torch.searchsorted(reached, targets * REACHED).clamp_(max=reached.shape[1] - 1)
        ends = cumulative.gather(1, last)
        if not self.is_weighted:  # a bin may end inside a group, whose residual is shared
            beyond = reached.gather(1, last) - targets
            ends -= beyond / sizes.gather(1, last) * residuals.gather(1, last)
        zero = torch.zeros(len(ends), 1, dtype=ends.dtype)
        return torch.diff(ends, prepend=zero, append=cumulative[:, -1:]).abs().sum(dim=1) / self.sizes.sum()


def _order(values: Float[Tensor, "J G"]) -> Int[Tensor, "J G"]:
    bits = values.numpy().view(np.int32)
    keys = np.where(bits < 0, np.int32(-(2**31)) - bits, bits).astype(np.int64) << 32
    keys |= np.arange(values.shape[1])
    keys.sort(axis=1)
    return torch.from_numpy(keys & (2**32 - 1))
