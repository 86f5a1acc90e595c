"""Fitted parameters whose search ended on a bound, marked in tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache

ON_BOUND = "†"
_SYMBOLS = {"temperature": "T", "ece_temperature": "T by ECE", "gamma": "γ"}


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


def note(*names: str) -> str:
    """What the mark means, and between which bounds these parameters are sought, as a sentence.

    Example:
        >>> note("gamma").partition("(")[2]
        'γ is sought from -0.999 to 50).'
    """
    low, high = bounds()[names[0]]
    first = f"{_SYMBOLS[names[0]]} is sought from {low:g} to {high:g}"
    others = [f"{_SYMBOLS[name]} from {bounds()[name][0]:g} to {bounds()[name][1]:g}" for name in names[1:]]
    return (
        f"{ON_BOUND} marks a parameter whose search ended on a bound, which is no estimate; on a mean, at "
        f"least one run has one ({', '.join([first, *others])})."
    )
