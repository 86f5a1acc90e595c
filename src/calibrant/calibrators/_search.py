"""Minimising smooth functions of a few parameters, with a certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.calibrators._objectives import Expansion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.calibrators._objectives import Matrix, Vector

# Wide enough for cosines (T near 0.01), and for scores in the thousands.
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 1e-4, 1e4
TOLERANCE = 1e-9  # of derivatives by logarithms of parameters; certificates promise 1e-8
MAX_STEPS = 100
LONGEST_STEP = 2.0  # in logarithms of parameters
_HALVINGS = 40


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
