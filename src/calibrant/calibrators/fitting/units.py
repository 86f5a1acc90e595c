"""Scores in any unit: a fit sees them at ordinary size, and its parameters are told in the unit given."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from calibrant.calibrators.fitting.objectives import Objective, in_effect, objective_value
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.temperatures import fit_temperature

ANY_TEMPERATURE = (sys.float_info.min, sys.float_info.max)
_ORDINARY = (-9, 9)  # exponents of two; what searches begin with and stop at is made for sizes between
_MOST = 1000  # divided by the largest power: what two to it is a number
_ROWS = 4096  # at most, that tell the size


def exponent_of(samples: Samples) -> int:
    """The power of two by which scores are divided to be of ordinary size; 0 if they are so already.

    Size is the median distance between a row's largest and smallest logit, or of log-odds from 0, so that
    single rows far out do not count.
    """
    rows = samples.scores[:: -(-samples.num_samples // _ROWS)].to(torch.float64)
    sizes = rows.abs() if samples.is_event else rows.amax(dim=1) - rows.amin(dim=1)
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return 0
    exponent = math.frexp(min(float(sizes.median()), sys.float_info.max))[1] - 2  # to between 2 and 4
    return 0 if _ORDINARY[0] <= exponent <= _ORDINARY[1] else exponent


def solved_at_ordinary_size(
    samples: Samples,
    solve: Callable[[Samples, int], Solution],
    powers: Mapping[str, int],
    objective: Objective,
) -> Solution:
    """What ``solve`` finds for scores divided by two to a power, of which it is told, in the unit given.

    A parameter grows with the power of the unit that ``powers`` names.
    """
    most = _MOST // max(map(abs, powers.values()), default=1)
    exponent = max(-most, min(most, exponent_of(samples))) if powers else 0
    if not exponent:
        return solve(samples, 0)
    found = solve(replace(samples, scores=divided(samples.scores, exponent)), exponent)
    before = objective_value(samples, in_effect(objective, samples), 1.0)
    if found.after > before:
        return solve(samples, 0)
    return replace(rescaled(found, powers, exponent), before=before)


def likeliest_temperature(samples: Samples) -> Solution:
    """Temperature scaling by likelihood, of scores in any unit."""

    def solve(inside: Samples, exponent: int) -> Solution:
        del exponent
        return fit_temperature(inside, "nll", "continuous")

    return solved_at_ordinary_size(samples, solve, {"temperature": 1}, "nll")


def divided(scores: Tensor, exponent: int) -> Tensor:
    """Scores, divided by two to this power; as they are where that is 0."""
    return torch.ldexp(scores.to(torch.float64), scores.new_tensor(-exponent)) if exponent else scores


def rescaled(found: Solution, powers: Mapping[str, int], exponent: int) -> Solution:
    """Parameters for scores that are two to this power times larger."""
    factors = {name: math.ldexp(1.0, exponent * power) for name, power in powers.items()}
    return replace(
        found,
        parameters={name: value * factors.get(name, 1.0) for name, value in found.parameters.items()},
        tables={name: value * factors.get(name, 1.0) for name, value in found.tables.items()},
    )
