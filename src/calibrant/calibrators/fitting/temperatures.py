"""The best temperature of one problem under an objective."""

from __future__ import annotations

import math
from itertools import accumulate, repeat
from typing import Literal, TypeAlias

import numpy as np

from calibrant._math.convex_minimum import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
    MARGIN,
    TemperatureRoot,
    best_temperature,
)
from calibrant.calibrators.fitting.descent import smooth_minimum
from calibrant.calibrators.fitting.grid import Place, best_on_grid
from calibrant.calibrators.fitting.likelihood import likelihood, likelihood_slopes
from calibrant.calibrators.fitting.objectives import (
    DIFFERENTIABLE,
    Objective,
    objective_value,
    smooth_objective,
)
from calibrant.calibrators.fitting.results import Solution, on_bounds
from calibrant.calibrators.fitting.samples import Samples

TemperatureSearch: TypeAlias = Literal["continuous", "grid"]

PAPER_GRID: tuple[float, ...] = tuple(accumulate(repeat(0.1, 100)))
"""0.1, 0.2, ..., 10.0, summed up as in the code of Mukhoti et al. (2020)."""

LARGE = 2**17  # entries; beyond, Newton's method starts from the optimum of some of the rows
_THIN_ROWS, _FEWEST_THIN, _MOST_THIN = 512, 64, 2**23  # rows, and entries of very wide ones
_STARTS = tuple(np.geomspace(1e-2, 1e2, 9).tolist())
_FINE_GRID = tuple(np.geomspace(1e-2, 1e2, 401).tolist())
_BEYOND = (  # where its first or its last is best
    tuple(np.geomspace(LOWEST_TEMPERATURE, 1e-2, 201)[:-1].tolist()),
    tuple(np.geomspace(1e2, HIGHEST_TEMPERATURE, 201)[1:].tolist()),
)
_ZOOMS, _ZOOM_POINTS = 2, 16


def fit_temperature(samples: Samples, objective: Objective, search: TemperatureSearch) -> Solution:
    """The temperature of one problem."""
    if search == "grid":
        return _best_of_paper_grid(samples, objective)
    if objective == "nll":
        return _most_likely(samples)
    least = _least_smooth if objective in DIFFERENTIABLE else _least_jumping
    return least(samples, objective)


def _most_likely(samples: Samples) -> Solution:
    start = likeliest_of_some(samples)
    root = best_temperature(lambda beta: likelihood_slopes(samples, beta), start, bracket=True)
    return of_likeliest(root, root.at_start if start == 1 else likelihood(samples, 1.0), start)


def likeliest_of_some(samples: Samples) -> float:
    """Where to begin: at 1, or for large tables at the optimum of some of the rows."""
    if samples.scores.numel() <= LARGE:
        return 1.0
    width = samples.scores.shape[-1] if samples.scores.ndim == 2 else 1
    thin = samples.thinned(min(_THIN_ROWS, max(_FEWEST_THIN, _MOST_THIN // width)))
    return best_temperature(lambda beta: likelihood_slopes(thin, beta)).temperature


def of_likeliest(root: TemperatureRoot, before: float, start: float) -> Solution:
    """What a search that began at ``start`` found; ``before`` is the likelihood at T = 1."""
    certificate = {} if root.on_bound else {"gradient": abs(root.slope)}
    if root.bracketed:
        certificate["bracket"] = 2 * MARGIN
    return Solution(
        converged=root.settled,
        steps=root.steps + (start != 1),
        before=before,
        after=root.value,
        parameters={"temperature": root.temperature},
        certificate=certificate,
        message="optimum on a bound" if root.on_bound else f"derivative by log T {abs(root.slope):.1e}",
        warnings=on_bounds(root.temperature),
    )


def _best_of_paper_grid(samples: Samples, objective: Objective) -> Solution:
    best, computed = best_on_grid(samples, objective, (0.0,), PAPER_GRID)
    at_end = best.temperature in {PAPER_GRID[0], PAPER_GRID[-1]}
    return Solution(
        converged=True,
        steps=computed,
        before=objective_value(samples, objective, 1.0),
        after=best.value,
        parameters={"temperature": best.temperature},
        certificate={"spacing": 0.1},
        message=f"best of {len(PAPER_GRID)} temperatures",
        warnings=(f"the best temperature is the end of the grid, {best.temperature:g}",) if at_end else (),
    )


def _least_smooth(samples: Samples, objective: Objective) -> Solution:
    """Descents from several starts; where a point of the grid lies lower, another one from there."""
    before = objective_value(samples, objective, 1.0)
    found = smooth_minimum(samples, objective, [(temperature, 0.0) for temperature in _STARTS])
    reached = Place(0.0, found.temperature, found.value)
    best, steps = best_on_grid(samples, objective, (0.0,), (*PAPER_GRID, 1.0), best=reached)
    steps += found.steps
    if best is not reached:
        found = smooth_minimum(samples, objective, [(best.temperature, 0.0)])
        steps += found.steps
    temperature, after, slope = found.temperature, found.value, found.slope
    if after >= before:
        temperature, after = 1.0, before
        slope = abs(float(smooth_objective(samples, objective, 1.0, 0.0).gradient[0]))
    return Solution(
        converged=slope < 1e-8,
        steps=steps,
        before=before,
        after=after,
        parameters={"temperature": temperature},
        certificate={"gradient": slope},
        message=f"derivative by log T {slope:.1e}",
        warnings=on_bounds(temperature),
    )


def _least_jumping(samples: Samples, objective: Objective) -> Solution:
    """T = 1 or better: on a fine grid that holds that of the paper, then on finer ones around the best."""
    before = objective_value(samples, objective, 1.0)
    grid = sorted({*PAPER_GRID, *_FINE_GRID})
    stay = Place(0.0, 1.0, before)
    best, steps = best_on_grid(samples, objective, (0.0,), grid, best=stay)
    for end, beyond in zip((grid[0], grid[-1]), _BEYOND, strict=True):
        if best.temperature == end:
            best, computed = best_on_grid(samples, objective, (0.0,), beyond, best=best)
            steps += computed
            grid += beyond
    width = math.log(_FINE_GRID[1] / _FINE_GRID[0])
    for _ in range(_ZOOMS):
        around = best.temperature * np.exp(np.linspace(-width, width, _ZOOM_POINTS))
        around = around.clip(LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE).tolist()
        best, computed = best_on_grid(samples, objective, (0.0,), around, best=best)
        steps += computed
        width *= 2 / _ZOOM_POINTS
    searched = f"{len(grid)} temperatures and {_ZOOMS * _ZOOM_POINTS} around the best of these"
    return Solution(
        converged=True,
        steps=steps,
        before=before,
        after=best.value,
        parameters={"temperature": best.temperature},
        certificate={"spacing": width},
        message=f"none of {searched} is better than 1" if best is stay else f"best of {searched}",
        warnings=on_bounds(best.temperature),
    )
