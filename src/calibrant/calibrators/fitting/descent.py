"""The least likelihood loss or Brier score over temperature and exponent, from several starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant._math.newton import Expansion, Minimum, Vector, minimise_in_box
from calibrant.calibrators.fitting.objectives import Objective, smooth_objective
from calibrant.calibrators.fitting.samples import Samples

# That tell which starts are best; scores of events are gathered rather than left out.
_THIN_ENTRIES, _FEWEST_ROWS, _MOST_ROWS, _ROWS_OF_EVENTS = 2**15, 256, 2**12, 2**9
_MOST_THIN_ENTRIES = 2**20  # even if these are fewer rows
_THIN_TOLERANCE, _COMPARED_TOLERANCE = 1e-4, 1e-3
_APART = 0.1  # minima that differ by less are one
_FOLLOWED = 3


@dataclass(frozen=True)
class SmoothMinimum:
    """The best local minimum found."""

    temperature: float
    gamma: float
    value: float
    slope: float  # largest derivative by log T or log(1 + gamma), where no bound holds the parameter
    steps: int


def smooth_minimum(
    samples: Samples,
    objective: Objective,
    starts: Sequence[tuple[float, float]],
    *,
    lowest_gamma: float = 0.0,
    highest_gamma: float = 0.0,
) -> SmoothMinimum:
    """Descend from each start (temperature, exponent) on some of the rows, from the best ends on all.

    Never above a single start.
    """
    low, high = box_of(lowest_gamma, highest_gamma)
    places = [np.array([math.log(temperature), math.log1p(gamma)]) for temperature, gamma in starts]
    function = in_logarithms(samples, objective)
    if len(places) > 1:
        width = samples.scores[0].numel()
        fewest = min(_FEWEST_ROWS, math.ceil(_MOST_THIN_ENTRIES / width))
        most = min(max(_THIN_ENTRIES // width, fewest), _MOST_ROWS)
        most = _ROWS_OF_EVENTS if samples.is_event else most
        some = samples.thinned(most)
        guess = function if some is samples else in_logarithms(some, objective)
        places = promising(guess, places, low, high)
    minima = [minimise_in_box(function, place, low, high, tolerance=_COMPARED_TOLERANCE) for place in places]
    first = min(minima, key=lambda minimum: minimum.value)
    best = minimise_in_box(function, first.point, low, high)
    steps = sum(minimum.steps for minimum in (*minima, best))
    return minimum_at(replace(best, steps=steps), lowest_gamma, highest_gamma)


def box_of(lowest_gamma: float, highest_gamma: float) -> tuple[Vector, Vector]:
    """The least and the largest logarithms."""
    low = np.array([math.log(LOWEST_TEMPERATURE), math.log1p(lowest_gamma)])
    return low, np.array([math.log(HIGHEST_TEMPERATURE), math.log1p(highest_gamma)])


def minimum_at(found: Minimum, lowest_gamma: float, highest_gamma: float) -> SmoothMinimum:
    """Temperature and exponent of what was found; bounds as they are, not by way of their logarithms."""
    low, high = box_of(lowest_gamma, highest_gamma)
    bounds = {low[0]: LOWEST_TEMPERATURE, high[0]: HIGHEST_TEMPERATURE}
    bounds_of_gamma = {low[1]: lowest_gamma, high[1]: highest_gamma}
    temperature = bounds.get(found.point[0], math.exp(found.point[0]))
    gamma = bounds_of_gamma.get(found.point[1], math.expm1(found.point[1]))
    return SmoothMinimum(temperature, gamma, found.value, found.slope, found.steps)


def promising(
    function: Callable[[Vector], Expansion], starts: Sequence[Vector], low: Vector, high: Vector
) -> list[Vector]:
    """Where the lowest descents end, no two close together."""
    ends = [minimise_in_box(function, start, low, high, tolerance=_THIN_TOLERANCE) for start in starts]
    return apart([end.point for end in sorted(ends, key=lambda end: end.value)])[:_FOLLOWED]


def apart(points: Sequence[Vector]) -> list[Vector]:
    """The points that are not close to one before them."""
    kept: list[Vector] = []
    for point in points:
        if all(np.abs(point - other).max() > _APART for other in kept):
            kept.append(point)
    return kept


def in_logarithms(samples: Samples, objective: Objective) -> Callable[[Vector], Expansion]:
    """The objective as a function of log T and log(1 + gamma), which remembers where it has been."""

    @cache
    def at(log_temperature: float, log_exponent: float) -> Expansion:
        temperature, gamma = math.exp(log_temperature), math.expm1(log_exponent)
        return by_logarithms(smooth_objective(samples, objective, temperature, gamma), gamma)

    return lambda point: at(*point.tolist())


def by_logarithms(found: Expansion, gamma: float) -> Expansion:
    """Derivatives by log(1 + gamma), from those by gamma."""
    value, gradient, hessian = found
    scale = np.array([1.0, 1 + gamma])  # d gamma = (1 + gamma) d log(1 + gamma)
    hessian = hessian * np.outer(scale, scale)
    hessian[1, 1] += scale[1] * gradient[1]
    return Expansion(value, gradient * scale, hessian)
