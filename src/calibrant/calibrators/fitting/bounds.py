"""Between which values temperatures and focal exponents are searched for."""

from __future__ import annotations

from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE

LOWEST_GAMMA, HIGHEST_GAMMA = -0.999, 50.0


def on_bounds(temperature: float, gamma: float = 0.0) -> tuple[str, ...]:
    """What to say of parameters that lie on a bound."""
    said: list[str] = []
    if temperature in {LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE}:
        said.append("the best temperature is a bound of the search")
    if gamma in {LOWEST_GAMMA, HIGHEST_GAMMA}:
        said.append(f"the best exponent is a bound, gamma = {gamma:g}")
    return tuple(said)
