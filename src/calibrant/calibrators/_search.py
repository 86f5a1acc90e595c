"""Minimising smooth functions of one or two parameters, with a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.calibrators._objectives import Expansion, Slopes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.calibrators._objectives import Matrix, Vector

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 1e-2, 1e2
TOLERANCE = 1e-9  # of derivatives by logarithms of parameters; certificates promise 1e-8
MAX_STEPS = 100
PATIENCE = 3  # steps of Newton's that may each be more than half as long as the one before
LONGEST_STEP = 2.0  # in logarithms of parameters
SMALL_STEP = 1e-7
_HALVINGS = 40


@dataclass(frozen=True)
class TemperatureRoot:
    """Where the derivative of a function convex in 1 / T vanishes, or the bound it points to."""

    temperature: float
    value: float
    slope: float  # derivative by log T
    steps: int
    exhausted: bool = False  # the steps were used up before Newton's became small

    @property
    def on_bound(self) -> bool:
        """Whether it is an end of the interval."""
        return self.temperature in {LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE}

    @property
    def settled(self) -> bool:
        """Whether the derivative vanishes, or points out of the interval at its end."""
        outwards = self.slope > 0 if self.temperature == LOWEST_TEMPERATURE else self.slope < 0
        return not self.exhausted and (abs(self.slope) < 1e-8 or (self.on_bound and outwards))


def convex_minimum(slopes: Callable[[float], Slopes], start: float = 1.0) -> TemperatureRoot:
    """Newton's method in log T on the derivative by 1 / T, which falls as T grows, between known signs.

    Of separable data the derivative fades as T falls and Newton's steps with it, long before the bound. So
    where they do not shrink, the end of the interval is tried, and what lies between known signs is halved.
    """
    low, high = math.log(LOWEST_TEMPERATURE), math.log(HIGHEST_TEMPERATURE)
    ends = {low: LOWEST_TEMPERATURE, high: HIGHEST_TEMPERATURE}
    untried = set(ends)
    place, steps, slow, previous = math.log(start), 0, 0, math.inf
    while True:
        steps += 1
        beta = 1 / ends.get(place, math.exp(place))
        value, first, second = slopes(beta)
        if first > 0:  # T must grow
            low = place
        else:
            high = place
        change = first / (beta * second) if second > 0 else math.copysign(math.inf, first)
        # A small derivative is not enough: of separable data it fades as T falls, but Newton's step does not.
        small = abs(beta * first) <= TOLERANCE and abs(change) <= SMALL_STEP
        if first == 0 or low >= high or small or steps == MAX_STEPS:
            break
        following = place + max(-LONGEST_STEP, min(LONGEST_STEP, change))
        slow, previous = (slow + 1 if abs(change) > abs(previous) / 2 else 0), change
        if slow >= PATIENCE or not low < following < high:
            # Try the end of the interval itself, once; after that both signs are known.
            end = low if change < 0 else high
            following = end if end in untried else (low + high) / 2
            untried.discard(end)
        if following == place:
            break
        place = following
    exhausted = steps == MAX_STEPS and not (first == 0 or low >= high or small)
    return TemperatureRoot(ends.get(place, math.exp(place)), value, -beta * first, steps, exhausted)


@dataclass(frozen=True, eq=False)
class Minimum:
    """A local minimum in a box."""

    point: Vector
    value: float
    slope: float  # largest derivative by a parameter that no bound holds
    steps: int


def minimise_in_box(
    function: Callable[[Vector], Expansion],
    start: Vector,
    low: Vector,
    high: Vector,
    *,
    tolerance: float = TOLERANCE,
) -> Minimum:
    """Newton's method with every curvature made positive and steps halved: never above the start."""
    point = np.clip(start, low, high)
    value, gradient, hessian = function(point)
    steps = 1
    while steps < MAX_STEPS:
        free = _free(point, gradient, low, high)
        if _largest(gradient, free) <= tolerance:
            break
        direction = np.zeros_like(point)
        direction[free] = -_solve_positive(hessian[np.ix_(free, free)], gradient[free])
        direction *= min(1.0, LONGEST_STEP / np.abs(direction).max())
        for halving in range(_HALVINGS):
            trial = np.clip(point + direction / 2**halving, low, high)
            found = function(trial)
            steps += 1
            # Near the minimum the value no longer tells, but the gradient does.
            flat = abs(found.value - value) <= 1e-14 * (1 + abs(value))
            if found.value <= value + 1e-4 * float(gradient @ (trial - point)) or (
                flat and _largest(found.gradient, free) < _largest(gradient, free)
            ):
                break
        else:
            break
        point, (value, gradient, hessian) = trial, found
    return Minimum(point, value, _largest(gradient, _free(point, gradient, low, high)), steps)


def _free(point: Vector, gradient: Vector, low: Vector, high: Vector) -> NDArray[np.bool_]:
    """Which parameters no bound holds against the descent."""
    return ~(((point <= low) & (gradient >= 0)) | ((point >= high) & (gradient <= 0)))


def _largest(gradient: Vector, free: NDArray[np.bool_]) -> float:
    return float(np.abs(gradient[free]).max(initial=0.0))


def _solve_positive(hessian: Matrix, gradient: Vector) -> Vector:
    """Newton's step with every curvature made positive."""
    curvatures, axes = np.linalg.eigh(hessian)
    curvatures = np.maximum(np.abs(curvatures), 1e-12 * max(1e-12, np.abs(curvatures).max()))
    return axes @ ((axes.T @ gradient) / curvatures)
