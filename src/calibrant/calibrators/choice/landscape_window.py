"""What part of the plane of exponents and temperatures a landscape shows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting.bounds import HIGHEST_GAMMA, LOWEST_GAMMA
from calibrant.calibrators.fitting.focal_searches import LINE_GAMMAS

LEVEL = 0.95
LINEAR_UP_TO = 12.0, 50.0  # beyond this exponent, or this temperature, the axes are logarithmic
_RIDGE_POINTS = 21


def middle(values: Float[ndarray, " R"]) -> tuple[float, float]:
    """Between which values 95 % lie."""
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def shown_gammas(low: float, high: float, count: int) -> list[float]:
    """At least those of the search along the line; evenly spaced, beyond 12 in log(1 + gamma)."""
    margin = 1.15
    bottom = min(LINE_GAMMAS[0], max(LOWEST_GAMMA, math.expm1(margin * math.log1p(low)))) if low < 0 else -0.5
    top = max(LINE_GAMMAS[-1], min(HIGHEST_GAMMA, margin * high))
    if top <= LINEAR_UP_TO[0]:
        return np.linspace(bottom, top, count).tolist()
    spaced = np.expm1(np.linspace(math.log1p(bottom), math.log1p(top), count))
    return spaced.clip(LOWEST_GAMMA, HIGHEST_GAMMA).tolist()


def ridge_gammas(low: float, high: float) -> list[float]:
    """Exponents of the ridge, 0 among them."""
    return sorted({0.0, *shown_gammas(low, high, _RIDGE_POINTS)})


def shown_temperatures(
    marked: Sequence[float], ridge: Float[ndarray, " G"], count: int, *, logarithmic: bool
) -> list[float]:
    """Room for the ridge, for all that is marked, and for the logits as they came (T = 1)."""
    bottom = max(LOWEST_TEMPERATURE, 0.5 * min(1.0, *marked, float(ridge.min())))
    top = min(HIGHEST_TEMPERATURE, 1.15 * max(1.0, *marked, float(ridge.max())))
    logarithmic = logarithmic or top > LINEAR_UP_TO[1]
    spaced = np.geomspace(bottom, top, count) if logarithmic else np.linspace(bottom, top, count)
    return spaced.clip(LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE).tolist()
