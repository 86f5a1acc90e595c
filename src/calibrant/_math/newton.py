"""Newton's method with halved steps: the halving rule, and minimisation in a box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Trial = TypeVar("Trial")

TOLERANCE = 1e-9  # of derivatives by parameters of order one; certificates guarantee 1e-8
MAX_STEPS = 100
LONGEST_STEP = 2.0  # in any parameter
_DESCENT = 1e-4  # share of the descent predicted by the slope that a step must reach


def halved(
    at: Callable[[float], tuple[float, float, Trial]],
    value: float,
    *,
    flatter: Callable[[Trial], bool],
    rounding: float = 1e-14,
    halvings: int = 40,
) -> Trial | None:
    """First of a step, its half, its quarter, ... that lowers a function enough; None if none does.

    ``at`` gives, for a fraction of the step, the function there, the change its slope predicts, and the
    point. ``value`` is the function at the start. ``flatter`` returns True if a point's gradient is smaller;
    it decides if values differ by at most ``rounding``, relatively.
    """
    for halving in range(halvings):
        reached, promised, trial = at(0.5**halving)
        if reached <= value + _DESCENT * promised:
            return trial
        if abs(reached - value) <= rounding * (1 + abs(value)) and flatter(trial):
            return trial
    return None


class Expansion(NamedTuple):
    value: float
    gradient: Vector
    hessian: Matrix


@dataclass(frozen=True, eq=False)
class Minimum:
    point: Vector
    value: float
    slope: float  # largest derivative by a free parameter
    steps: int
    gradient: Vector  # of the free parameters, as are the second derivatives
    hessian: Matrix

    @property
    def promised(self) -> float:
        if not len(self.gradient):
            return 0.0
        return float(self.gradient @ _solve_positive(self.hessian, self.gradient)) / 2


def minimise_in_box(
    function: Callable[[Vector], Expansion],
    start: Vector,
    low: Vector,
    high: Vector,
    *,
    max_steps: int | None = None,
    tolerance: float = TOLERANCE,
    longest_step: float = LONGEST_STEP,
) -> Minimum:
    """Newton's method with every curvature made positive and steps halved: never above the start."""
    point = np.clip(start, low, high)
    here, steps = function(point), 1
    while steps < (max_steps or MAX_STEPS):
        free = _free(point, here.gradient, low, high)
        if _largest(here.gradient, free) <= tolerance:
            break
        direction = np.zeros_like(point)
        direction[free] = -_solve_positive(here.hessian[free][:, free], here.gradient[free])
        direction *= min(1.0, longest_step / np.abs(direction).max())
        found, looks = _along(function, point, here, direction, free, (low, high))
        steps += looks
        if found is None:
            break
        point, here = found
    free = _free(point, here.gradient, low, high)
    found = here.gradient[free], here.hessian[free][:, free]
    return Minimum(point, here.value, _largest(here.gradient, free), steps, *found)


def _along(
    function: Callable[[Vector], Expansion],
    point: Vector,
    here: Expansion,
    direction: Vector,
    free: NDArray[np.bool_],
    box: tuple[Vector, Vector],
) -> tuple[tuple[Vector, Expansion] | None, int]:
    """Next point with its expansion, and the number of evaluations."""
    looks, largest = 0, _largest(here.gradient, free)

    def at(part: float) -> tuple[float, float, tuple[Vector, Expansion]]:
        nonlocal looks
        looks += 1
        trial = np.clip(point + part * direction, *box)
        found = function(trial)
        return found.value, float(here.gradient @ (trial - point)), (trial, found)

    found = halved(at, here.value, flatter=lambda trial: _largest(trial[1].gradient, free) < largest)
    return found, looks


def _free(point: Vector, gradient: Vector, low: Vector, high: Vector) -> NDArray[np.bool_]:
    return ~(((point <= low) & (gradient >= 0)) | ((point >= high) & (gradient <= 0)))


def _largest(gradient: Vector, free: NDArray[np.bool_]) -> float:
    return float(np.abs(gradient[free]).max(initial=0.0))


def _solve_positive(hessian: Matrix, gradient: Vector) -> Vector:
    curvatures, axes = np.linalg.eigh(hessian)
    curvatures = np.maximum(np.abs(curvatures), 1e-12 * max(1e-12, np.abs(curvatures).max()))
    return axes @ ((axes.T @ gradient) / curvatures)
