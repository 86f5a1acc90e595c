"""Searches for the temperature, and the focal exponent, of one problem with scores in any unit."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate, repeat
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.convex_minimum import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
    MARGIN,
    TemperatureRoot,
    best_temperature,
)
from calibrant._math.newton import Expansion, Minimum, Vector, minimise_in_box
from calibrant.calibrators.fitting.grid import Place, Point, best_on_grid, best_on_line
from calibrant.calibrators.fitting.objectives import (
    DIFFERENTIABLE,
    Objective,
    in_effect,
    objective_value,
    smooth_objective,
)
from calibrant.calibrators.fitting.results import HIGHEST_GAMMA, LOWEST_GAMMA, Solution, on_bounds
from calibrant.calibrators.fitting.samples import Samples, likelihood_slopes

TemperatureSearch: TypeAlias = Literal["continuous", "grid"]
PAPER_GRID: tuple[float, ...] = tuple(accumulate(repeat(0.1, 100)))
"""0.1, 0.2, ..., 10.0, summed up as in the code of Mukhoti et al. (2020)."""
LARGE = 2**17  # entries; beyond, Newton's method starts from the optimum of a subsample
_THIN_ROWS, _FEWEST_THIN, _MOST_THIN = 512, 64, 2**23  # rows, and entries of very wide ones
_STARTS = tuple(np.geomspace(1e-2, 1e2, 9).tolist())
_FINE_GRID = tuple(np.geomspace(1e-2, 1e2, 401).tolist())
_BEYOND = (  # used if the first or last is best
    tuple(np.geomspace(LOWEST_TEMPERATURE, 1e-2, 201)[:-1].tolist()),
    tuple(np.geomspace(1e2, HIGHEST_TEMPERATURE, 201)[1:].tolist()),
)
_ZOOMS, _ZOOM_POINTS = 2, 16
# Entries for choosing starts; scores of events are merged rather than dropped.
_THIN_ENTRIES, _FEWEST_ROWS, _MOST_ROWS, _ROWS_OF_EVENTS = 2**15, 256, 2**12, 2**9
_MOST_THIN_ENTRIES = 2**20  # also if these are fewer rows
_THIN_TOLERANCE, _COMPARED_TOLERANCE = 1e-4, 1e-3
_APART = 0.1  # closer minima count as one
_FOLLOWED = 3
FocalTemperatureSearch: TypeAlias = Literal["full", "line", "grid"]
PAPER_GAMMAS = (-0.5, -0.25, 0.05, 0.25, 0.37, 0.5, 0.75, 1.0, 5.0)
PAPER_TEMPERATURES = tuple((np.arange(1, 501) / 100).tolist())
LINE_GAMMAS = tuple(np.linspace(-0.5, 5.0, len(PAPER_GRID)).tolist())
_START_GAMMAS = (-0.95, -0.5, 0.0, 1.0, 4.0, 12.0)
_WIDE_GAMMAS = (-0.9, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 50.0)
_WIDE_FACTORS = np.geomspace(1 / 3, 3, 61)
_ZOOM_WIDTHS = ((0.03, 0.15), (0.005, 0.03))  # in log T, and in log(1 + gamma) along the ridge
_ZOOMED_POINTS = 5
ANY_TEMPERATURE = (sys.float_info.min, sys.float_info.max)
_ORDINARY = (-9, 9)  # exponents of two; starts and tolerances of searches suit sizes between
_MOST = 1000  # divided by the largest power: the limit of finite powers of two
_ROWS = 4096  # at most, for estimating the size


def fit_temperature(samples: Samples, objective: Objective, search: TemperatureSearch) -> Solution:
    objective = in_effect(objective, samples)
    if search == "grid":
        return _best_of_paper_grid(samples, objective)
    if objective == "nll":
        return samples.once("temperature", partial(_most_likely, samples))
    least = _least_smooth if objective in DIFFERENTIABLE else _least_jumping
    return least(samples, objective)


def _most_likely(samples: Samples) -> Solution:
    start = 1.0
    if samples.scores.numel() > LARGE:
        thin = samples.thinned(min(_THIN_ROWS, max(_FEWEST_THIN, _MOST_THIN // samples.width)))
        start = best_temperature(lambda beta: likelihood_slopes(thin, beta)).temperature
    root = best_temperature(lambda beta: likelihood_slopes(samples, beta), start, bracket=True)
    return solution_of(root, root.at_start if start == 1 else likelihood_slopes(samples, 1.0).value, start)


def solution_of(root: TemperatureRoot, before: float, start: float) -> Solution:
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
        message="optimum on a bound" if root.on_bound else f"gradient {abs(root.slope):.1e} in log T",
        warnings=on_bounds(root.temperature),
    )


def _best_of_paper_grid(samples: Samples, objective: Objective) -> Solution:
    best, computed = best_on_grid(samples, objective, (0.0,), PAPER_GRID)
    before, message = objective_value(samples, objective, 1.0), f"best of {len(PAPER_GRID)} temperatures"
    found = _of_grid(best, computed, before, spacing=0.1, message=message)
    if best.temperature not in {PAPER_GRID[0], PAPER_GRID[-1]}:
        return found
    return replace(found, warnings=(f"the best temperature is the end of the grid, {best.temperature:g}",))


def _of_grid(best: Place, steps: int, before: float, *, spacing: float, message: str) -> Solution:
    return Solution(
        converged=True,
        steps=steps,
        before=before,
        after=best.value,
        parameters={"temperature": best.temperature},
        certificate={"spacing": spacing},
        message=message,
        warnings=on_bounds(best.temperature, best.gamma),
    )


def _least_smooth(samples: Samples, objective: Objective) -> Solution:
    """Descents from several starts; if a grid point is lower, another one from there."""
    before = objective_value(samples, objective, 1.0)
    found = smooth_minimum(samples, objective, [(temperature, 0.0) for temperature in _STARTS])
    reached = Place(0.0, found.parameters["temperature"], found.after)
    best, steps = best_on_grid(samples, objective, (0.0,), (*PAPER_GRID, 1.0), best=reached)
    steps += found.steps
    if best is not reached:
        found = smooth_minimum(samples, objective, [(best.temperature, 0.0)])
        steps += found.steps
    temperature, after, slope = found.parameters["temperature"], found.after, found.certificate["gradient"]
    if after >= before:
        temperature, after = 1.0, before
        slope = abs(float(smooth_objective(samples, objective, 1.0, 0.0).gradient[0]))
    return Solution.by_gradient(
        slope,
        of=" in log T",
        steps=steps,
        before=before,
        after=after,
        parameters={"temperature": temperature},
        warnings=on_bounds(temperature),
    )


def _least_jumping(samples: Samples, objective: Objective) -> Solution:
    """T = 1 or better: on a fine grid that includes the paper's, then finer ones around the best."""
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
    message = f"none of {searched} is better than 1" if best is stay else f"best of {searched}"
    return _of_grid(best, steps, before, spacing=width, message=message)


def smooth_minimum(
    samples: Samples,
    objective: Objective,
    starts: Sequence[tuple[float, float]],
    gammas: tuple[float, float] = (0.0, 0.0),
    *,
    before: float = math.nan,
) -> Solution:
    """Descend from each start (temperature, exponent) on a subsample, from the best ends on all rows.

    The result is never above a single start, and has an exponent between two ``gammas``.
    """
    low, high = place_of(LOWEST_TEMPERATURE, gammas[0]), place_of(HIGHEST_TEMPERATURE, gammas[1])
    places = [place_of(*start) for start in starts]
    function = in_logarithms(samples, objective)
    if len(places) > 1:
        fewest = min(_FEWEST_ROWS, math.ceil(_MOST_THIN_ENTRIES / samples.width))
        most = min(max(_THIN_ENTRIES // samples.width, fewest), _MOST_ROWS)
        most = _ROWS_OF_EVENTS if samples.is_event else most
        some = samples.thinned(most)
        guess = function if some is samples else in_logarithms(some, objective)
        places = promising(guess, places, low, high)
    minima = [minimise_in_box(function, place, low, high, tolerance=_COMPARED_TOLERANCE) for place in places]
    first = min(minima, key=lambda minimum: minimum.value)
    best = minimise_in_box(function, first.point, low, high)
    return of_descent(best, before, steps=sum(minimum.steps for minimum in (*minima, best)))


def place_of(temperature: float, gamma: float) -> Vector:
    return np.array([math.log(temperature), math.log1p(gamma)])


BOX = place_of(LOWEST_TEMPERATURE, LOWEST_GAMMA), place_of(HIGHEST_TEMPERATURE, HIGHEST_GAMMA)
_EXACT = {math.log(bound): bound for bound in (LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE)}
_EXACT_GAMMA = {math.log1p(bound): bound for bound in (LOWEST_GAMMA, HIGHEST_GAMMA)}


def of_descent(found: Minimum, before: float, *, steps: int | None = None) -> Solution:
    """Temperature and exponent of a minimum; bounds are exact, not via their logarithms."""
    log_temperature, log_exponent = found.point.tolist()
    temperature = _EXACT.get(log_temperature, math.exp(log_temperature))
    gamma = _EXACT_GAMMA.get(log_exponent, math.expm1(log_exponent))
    return Solution.by_gradient(
        found.slope,
        of=" in log T and log(1 + gamma)",
        steps=found.steps if steps is None else steps,
        before=before,
        after=found.value,
        parameters={"temperature": temperature, "gamma": gamma},
        warnings=on_bounds(temperature, gamma),
    )


def promising(
    function: Callable[[Vector], Expansion], starts: Sequence[Vector], low: Vector, high: Vector
) -> list[Vector]:
    ends = [minimise_in_box(function, start, low, high, tolerance=_THIN_TOLERANCE) for start in starts]
    return apart([end.point for end in sorted(ends, key=lambda end: end.value)])[:_FOLLOWED]


def apart(points: Sequence[Vector]) -> list[Vector]:
    kept: list[Vector] = []
    for point in points:
        if all(np.abs(point - other).max() > _APART for other in kept):
            kept.append(point)
    return kept


def in_logarithms(samples: Samples, objective: Objective) -> Callable[[Vector], Expansion]:
    """Objective as a function of log T and log(1 + gamma), with a cache."""

    @cache
    def at(log_temperature: float, log_exponent: float) -> Expansion:
        temperature, gamma = math.exp(log_temperature), math.expm1(log_exponent)
        return by_logarithms(smooth_objective(samples, objective, temperature, gamma), gamma)

    return lambda point: at(*point.tolist())


def by_logarithms(found: Expansion, gamma: float) -> Expansion:
    """Convert derivatives by gamma to derivatives by log(1 + gamma)."""
    value, gradient, hessian = found
    scale = np.array([1.0, 1 + gamma])  # d gamma = (1 + gamma) d log(1 + gamma)
    hessian = hessian * np.outer(scale, scale)
    hessian[1, 1] += scale[1] * gradient[1]
    return Expansion(value, gradient * scale, hessian)


def fit_focal_temperature(
    samples: Samples,
    objective: Objective,
    search: FocalTemperatureSearch,
    near: tuple[float, float] | None = None,
) -> tuple[Solution, Solution]:
    """Temperature scaling, and focal temperature scaling, never worse; a full search may begin ``near``."""
    objective = in_effect(objective, samples)
    simpler = fit_temperature(samples, objective, "continuous")
    if search == "grid":
        best, steps = best_on_grid(samples, objective, PAPER_GAMMAS, PAPER_TEMPERATURES)
        found = of_place(best, steps, simpler, spacing=0.01)
    elif search == "line":
        best, steps = best_on_papers_line(samples, objective, None)
        found = of_place(best, steps, simpler, spacing=0.1)
    elif objective not in DIFFERENTIABLE:
        found = _full_jumping(samples, objective, simpler)
    else:
        starts = [near] if near else starts_along_ridge(simpler.parameters["temperature"])
        gammas = LOWEST_GAMMA, HIGHEST_GAMMA
        found = smooth_minimum(samples, objective, starts, gammas, before=simpler.before)
    return simpler, better(found, simpler)


def starts_along_ridge(temperature: float) -> list[tuple[float, float]]:
    """Temperatures and exponents about as good as a temperature alone."""
    return [(temperature * steepness(gamma), gamma) for gamma in _START_GAMMAS]


def _full_jumping(samples: Samples, objective: Objective, simpler: Solution) -> Solution:
    """Search the paper's grid, the line, windows along the ridge beyond, and finer ones around the best."""
    best = Place(0.0, simpler.parameters["temperature"], simpler.after)
    best, steps = best_on_grid(samples, objective, PAPER_GAMMAS, PAPER_TEMPERATURES, best=best)
    best, computed = best_on_papers_line(samples, objective, best)
    steps += computed
    centre = fit_temperature(samples, "nll", "continuous").parameters["temperature"]
    for gamma in _WIDE_GAMMAS:
        window = _inside(centre * steepness(gamma) * _WIDE_FACTORS)
        best, computed = best_on_grid(samples, objective, (gamma,), window, best=best)
        steps += computed
    for width, width_along_ridge in _ZOOM_WIDTHS:
        origin = best
        shifts = np.linspace(-width_along_ridge, width_along_ridge, _ZOOMED_POINTS)
        for gamma in np.expm1(math.log1p(origin.gamma) + shifts).clip(LOWEST_GAMMA, HIGHEST_GAMMA).tolist():
            ridge = origin.temperature * steepness(gamma) / steepness(origin.gamma)
            window = _inside(ridge * np.exp(np.linspace(-width, width, _ZOOMED_POINTS)))
            best, computed = best_on_grid(samples, objective, (gamma,), window, best=best)
            steps += computed
    return of_place(best, steps, simpler, spacing=_ZOOM_WIDTHS[-1][0] / (_ZOOMED_POINTS // 2))


def best_on_papers_line(
    samples: Samples,
    objective: Objective,
    best: Place | None,
    temperatures: Sequence[float] = PAPER_GRID,
    gammas: Sequence[float] = LINE_GAMMAS,
) -> tuple[Place, int]:
    """Best of the line through the best temperatures at exponents 0 and 1, these two, and ``best``."""
    (first, steps), (second, more) = (
        best_on_grid(samples, objective, (gamma,), temperatures) for gamma in (0.0, 1.0)
    )
    points = line_through(first, second, gammas)
    for candidate in (first, second):
        best = candidate if best is None or candidate.value < best.value else best
    best, computed = best_on_line(samples, objective, points, best=best or first)
    return best, steps + more + computed


def line_through(first: Place, second: Place, gammas: Sequence[float] = LINE_GAMMAS) -> list[Point]:
    rise = second.temperature - first.temperature
    points = [(first.temperature + gamma * rise, gamma) for gamma in gammas]
    return [point for point in points if LOWEST_TEMPERATURE <= point[0] <= HIGHEST_TEMPERATURE]


def of_place(best: Place, steps: int, simpler: Solution, *, spacing: float) -> Solution:
    message = f"best point found, {steps} computed exactly"
    found = _of_grid(best, steps, simpler.before, spacing=spacing, message=message)
    return replace(found, parameters={**found.parameters, "gamma": best.gamma})


def better(found: Solution, simpler: Solution) -> Solution:
    """The better fit; temperature scaling unless the improvement exceeds rounding."""
    compared = {"temperature": simpler.after}
    if found.after < simpler.after - 1e-12:
        return replace(found, compared=compared)
    return replace(
        without_exponent(simpler, found, "no exponent is better than temperature scaling"), compared=compared
    )


def without_exponent(simpler: Solution, found: Solution, why: str) -> Solution:
    return replace(
        simpler,
        parameters={**simpler.parameters, "gamma": 0.0},
        message=f"{simpler.message}; {why}",
        compared=found.compared,
    )


def steepness(gamma: float) -> float:
    """Slope of the binary map at even odds: about the temperature that undoes it."""
    return gamma + 1 - gamma * (2 * math.log(2) - 1) / (1 + gamma * math.log(2))


def _inside(temperatures: NDArray[np.float64]) -> list[float]:
    return np.unique(np.clip(temperatures, LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE)).tolist()


def exponent_of(samples: Samples) -> int:
    """Power of two by which to divide scores to get ordinary size; 0 for ordinary scores.

    Size is the median distance between a row's largest and smallest logit, or of log-odds from 0, so that
    outliers are ignored.
    """
    rows = samples.scores[:: -(-samples.num_samples // _ROWS)]
    sizes = rows.double().abs() if samples.is_event else rows.amax(dim=1).double() - rows.amin(dim=1).double()
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
    """Solve for scores divided by a power of two, which ``solve`` gets, and return results in the given unit.

    ``powers`` gives the power of the unit by which each parameter grows.
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


def maximum_likelihood_temperature(samples: Samples) -> Solution:
    def solve(inside: Samples, _exponent: int) -> Solution:
        return fit_temperature(inside, "nll", "continuous")

    return solved_at_ordinary_size(samples, solve, {"temperature": 1}, "nll")


def divided(scores: Tensor, exponent: int) -> Tensor:
    """Scores divided by two to the ``exponent``; unchanged for 0."""
    return torch.ldexp(scores.to(torch.float64), scores.new_tensor(-exponent)) if exponent else scores


def rescaled(found: Solution, powers: Mapping[str, int], exponent: int) -> Solution:
    factors = {name: math.ldexp(1.0, exponent * power) for name, power in powers.items()}
    return replace(
        found,
        parameters={name: value * factors.get(name, 1.0) for name, value in found.parameters.items()},
        tables={name: value * factors.get(name, 1.0) for name, value in found.tables.items()},
    )
