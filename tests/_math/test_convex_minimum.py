"""Convex functions of one number."""

import math

import pytest

from calibrant._math.convex_minimum import (
    MARGIN,
    Slopes,
    best_temperature,
    convex_minimum,
)


@pytest.mark.parametrize("target", [0.011, 0.3, 1.0, 7.5, 99.0])
@pytest.mark.parametrize("start", [0.02, 1.0, 90.0])
def test_minimum_inside(target: float, start: float) -> None:
    functions = (
        lambda x: (math.log(x / target), 1 / x),
        lambda x: (math.tanh(20 * (x - target)), 20 / math.cosh(min(300.0, abs(20 * (x - target)))) ** 2),
        lambda x: ((x - target) ** 3, 3 * (x - target) ** 2),
    )
    tolerances = (1e-12, 1e-12, 1e-5)  # of the last, the third root of rounding
    for slopes, tolerance in zip(functions, tolerances, strict=True):
        assert convex_minimum(slopes, 0.01, 100, start=start) == pytest.approx(target, rel=tolerance)


def test_minimum_at_an_end() -> None:
    assert convex_minimum(lambda x: (x, 1.0), 0.01, 100) == 0.01
    assert convex_minimum(lambda x: (-1 / x, 1 / x**2), 0.01, 100) == 100
    assert convex_minimum(lambda _: (0.0, 0.0), 0.01, 100) == 0.01


def test_newton_finds_roots_that_plain_newton_overshoots() -> None:
    def slopes(beta: float) -> Slopes:
        # Softplus of 50 (beta - 30): flat below 30, straight above, minus a small slope.
        x = 50 * (beta - 30)
        sigmoid = 1 / (1 + math.exp(-x)) if x > -700 else 0.0
        return Slopes(50 * (sigmoid - 1e-3), 2500 * sigmoid * (1 - sigmoid))

    root = best_temperature(slopes)
    assert root.settled
    assert 1 / root.temperature == pytest.approx(30 + math.log(1e-3 / (1 - 1e-3)) / 50, rel=1e-9)


def test_a_root_is_bracketed_where_the_other_sign_was_seen() -> None:
    """The derivative is asked for a margin away, at an exact zero on both sides; one sign is not enough."""
    asked: list[float] = []

    def rising(beta: float) -> Slopes:
        asked.append(beta)
        return Slopes(math.log(beta / 3), 1 / beta)

    root = best_temperature(rising, bracket=True)
    assert root.bracketed
    assert not best_temperature(rising).bracketed
    place = 1 / root.temperature
    near = [beta for beta in asked if abs(math.log(beta / place)) <= MARGIN * (1 + 1e-6)]
    assert min(rising(beta).first for beta in near) < 0 < max(rising(beta).first for beta in near)

    exact = best_temperature(lambda beta: Slopes(beta - 1, 1.0), bracket=True)
    assert (exact.temperature, exact.steps, exact.bracketed) == (1.0, 3, True)
    flat_below = best_temperature(lambda beta: Slopes(max(0.0, beta - 1), 1.0), bracket=True)
    flat_above = best_temperature(lambda beta: Slopes(min(0.0, beta - 1), 1.0), bracket=True)
    never_zero = best_temperature(lambda _: Slopes(1e-15, 1.0), bracket=True)
    assert not any(one.bracketed for one in (flat_below, flat_above, never_zero))
