"""Searches for temperature and exponent of one problem."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant.calibrators.fitting.descent import SmoothMinimum, smooth_minimum
from calibrant.calibrators.fitting.grid import Place, Point, best_on_grid, best_on_line
from calibrant.calibrators.fitting.objectives import DIFFERENTIABLE, Objective
from calibrant.calibrators.fitting.results import HIGHEST_GAMMA, LOWEST_GAMMA, Solution, on_bounds
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.temperatures import PAPER_GRID, fit_temperature

FocalTemperatureSearch: TypeAlias = Literal["full", "line", "grid"]

PAPER_GAMMAS = (-0.5, -0.25, 0.05, 0.25, 0.37, 0.5, 0.75, 1.0, 5.0)
PAPER_TEMPERATURES = tuple((np.arange(1, 501) / 100).tolist())
LINE_GAMMAS = tuple(np.linspace(-0.5, 5.0, len(PAPER_GRID)).tolist())
START_GAMMAS = (-0.95, -0.5, 0.0, 1.0, 4.0, 12.0)
_WIDE_GAMMAS = (-0.9, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 50.0)
_WIDE_FACTORS = np.geomspace(1 / 3, 3, 61)
_ZOOM_WIDTHS = ((0.03, 0.15), (0.005, 0.03))  # in log T, and in log(1 + gamma) along the ridge
_ZOOM_POINTS = 5


def fit_focal_temperature(
    samples: Samples, objective: Objective, search: FocalTemperatureSearch
) -> tuple[Solution, Solution]:
    """Temperature scaling, and what is at least as good."""
    simpler = fit_temperature(samples, objective, "continuous")
    if search == "full":
        found = _full(samples, objective, simpler)
    elif search == "grid":
        best, steps = best_on_grid(samples, objective, PAPER_GAMMAS, PAPER_TEMPERATURES)
        found = of_place(best, steps, simpler, spacing=0.01)
    else:
        best, steps = best_on_papers_line(samples, objective, None)
        found = of_place(best, steps, simpler, spacing=0.1)
    return simpler, better(found, simpler)


def fit_focal_temperature_near(
    samples: Samples, objective: Objective, *, temperature: float, gamma: float
) -> Solution:
    """The optimum that Newton's method reaches from one point, or temperature scaling."""
    simpler = fit_temperature(samples, objective, "continuous")
    return better(_descended(samples, objective, simpler, [(temperature, gamma)]), simpler)


def _full(samples: Samples, objective: Objective, simpler: Solution) -> Solution:
    if objective not in DIFFERENTIABLE:
        return _full_jumping(samples, objective, simpler)
    centre = simpler.parameters["temperature"]
    starts = [(centre * steepness(gamma), gamma) for gamma in START_GAMMAS]
    return _descended(samples, objective, simpler, starts)


def _descended(
    samples: Samples, objective: Objective, simpler: Solution, starts: Sequence[tuple[float, float]]
) -> Solution:
    found = smooth_minimum(samples, objective, starts, lowest_gamma=LOWEST_GAMMA, highest_gamma=HIGHEST_GAMMA)
    return of_descent(found, simpler.before)


def of_descent(found: SmoothMinimum, before: float) -> Solution:
    """The solution that a descent reached."""
    return Solution(
        converged=found.slope < 1e-8,
        steps=found.steps,
        before=before,
        after=found.value,
        parameters={"temperature": found.temperature, "gamma": found.gamma},
        certificate={"gradient": found.slope},
        message=f"gradient {found.slope:.1e} by log T and log(1 + gamma)",
        warnings=on_bounds(found.temperature, found.gamma),
    )


def _full_jumping(samples: Samples, objective: Objective, simpler: Solution) -> Solution:
    """The paper's grid, the line, windows along the ridge beyond them, and finer ones around the best."""
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
        shifts = np.linspace(-width_along_ridge, width_along_ridge, _ZOOM_POINTS)
        for gamma in np.expm1(math.log1p(origin.gamma) + shifts).clip(LOWEST_GAMMA, HIGHEST_GAMMA).tolist():
            ridge = origin.temperature * steepness(gamma) / steepness(origin.gamma)
            window = _inside(ridge * np.exp(np.linspace(-width, width, _ZOOM_POINTS)))
            best, computed = best_on_grid(samples, objective, (gamma,), window, best=best)
            steps += computed
    return of_place(best, steps, simpler, spacing=_ZOOM_WIDTHS[-1][0] / (_ZOOM_POINTS // 2))


def best_on_papers_line(
    samples: Samples,
    objective: Objective,
    best: Place | None,
    temperatures: Sequence[float] = PAPER_GRID,
    gammas: Sequence[float] = LINE_GAMMAS,
) -> tuple[Place, int]:
    """The best of the line through the best temperatures at exponents 0 and 1, these two, and ``best``."""
    (first, steps), (second, more) = (
        best_on_grid(samples, objective, (gamma,), temperatures) for gamma in (0.0, 1.0)
    )
    points = line_through(first, second, gammas)
    for candidate in (first, second):
        best = candidate if best is None or candidate.value < best.value else best
    best, computed = best_on_line(samples, objective, points, best=best or first)
    return best, steps + more + computed


def line_through(first: Place, second: Place, gammas: Sequence[float] = LINE_GAMMAS) -> list[Point]:
    """The points that the search along the line looks at, from the best at exponents 0 and 1."""
    rise = second.temperature - first.temperature
    points = [(first.temperature + gamma * rise, gamma) for gamma in gammas]
    return [point for point in points if LOWEST_TEMPERATURE <= point[0] <= HIGHEST_TEMPERATURE]


def of_place(best: Place, steps: int, simpler: Solution, *, spacing: float) -> Solution:
    """The solution that a search over points found."""
    return Solution(
        converged=True,
        steps=steps,
        before=simpler.before,
        after=best.value,
        parameters={"temperature": best.temperature, "gamma": best.gamma},
        certificate={"spacing": spacing},
        message=f"best point found, {steps} computed exactly",
        warnings=on_bounds(best.temperature, best.gamma),
    )


def better(found: Solution, simpler: Solution) -> Solution:
    """The better of the two; temperature scaling unless the improvement is more than rounding."""
    compared = {"temperature": simpler.after}
    if found.after < simpler.after - 1e-12:
        return replace(found, compared=compared)
    return replace(
        without_exponent(simpler, found, "no exponent is better than temperature scaling"), compared=compared
    )


def without_exponent(simpler: Solution, found: Solution, why: str) -> Solution:
    """Temperature scaling as a special case."""
    return replace(
        simpler,
        parameters={**simpler.parameters, "gamma": 0.0},
        message=f"{why} ({simpler.message})",
        compared=found.compared,
    )


def steepness(gamma: float) -> float:
    """Slope of the binary map at even odds: about the temperature that undoes it."""
    return gamma + 1 - gamma * (2 * math.log(2) - 1) / (1 + gamma * math.log(2))


def _inside(temperatures: NDArray[np.float64]) -> list[float]:
    return np.unique(np.clip(temperatures, LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE)).tolist()
