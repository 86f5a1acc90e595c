"""Fitted parameters whose search ended on a bound, marked in tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache

ON_BOUND = "†"


@cache
def bounds() -> Mapping[str, tuple[float, float]]:
    """Between which the parameters of a run are sought; imported late, for calibrators load torch."""
    from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
    from calibrant.calibrators.fitting.bounds import HIGHEST_GAMMA, LOWEST_GAMMA
    from calibrant.calibrators.fitting.temperatures import PAPER_GRID

    sought, chosen = (LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE), (PAPER_GRID[0], PAPER_GRID[-1])
    return {
        "temperature": sought,
        "focal_temperature": sought,
        "ece_temperature": chosen,
        "adaptive_ece_temperature": chosen,
        "gamma": (LOWEST_GAMMA, HIGHEST_GAMMA),
    }


def mark(name: str, values: Iterable[float]) -> str:
    """The mark if one of a parameter's values lies on a bound, else nothing.

    Example:
        >>> mark("gamma", [0.2, -0.999]), mark("gamma", [0.2, -0.99])
        ('†', '')
    """
    ends = bounds()[name]
    return ON_BOUND if any(math.isclose(each, end, rel_tol=1e-6) for each in values for end in ends) else ""


def note() -> str:
    """What the mark means, as a sentence."""
    (low, high), (first, last), (least, most) = (
        bounds()[name] for name in ("gamma", "ece_temperature", "temperature")
    )
    return (
        f"{ON_BOUND} marks a mean of which one run or more ended its search on a bound, so that this run has "
        f"no estimate: γ is sought from {low:g} to {high:g}, T from {least:g} to {most:g}, T by ECE from "
        f"{first:g} to {last:g}."
    )
