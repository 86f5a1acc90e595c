"""Convex functions of one number."""

from __future__ import annotations

import math

import pytest

from calibrant._math.convex_minimum import convex_minimum


@pytest.mark.parametrize("target", [0.011, 0.3, 1.0, 7.5, 99.0])
@pytest.mark.parametrize("start", [0.02, 1.0, 90.0])
def test_minimum_inside(target: float, start: float) -> None:
    """Steep and flat functions, where Newton's steps overshoot, are minimised to twelve digits."""
    functions = (
        lambda x: (math.log(x / target), 1 / x),
        lambda x: (math.tanh(20 * (x - target)), 20 / math.cosh(min(300.0, abs(20 * (x - target)))) ** 2),
        lambda x: ((x - target) ** 3, 3 * (x - target) ** 2),
    )
    tolerances = (1e-12, 1e-12, 1e-5)  # of the last, the third root of rounding
    for slopes, tolerance in zip(functions, tolerances, strict=True):
        assert convex_minimum(slopes, 0.01, 100, start=start) == pytest.approx(target, rel=tolerance)


def test_minimum_at_an_end() -> None:
    """A derivative of one sign leads to the end itself."""
    assert convex_minimum(lambda x: (x, 1.0), 0.01, 100) == 0.01
    assert convex_minimum(lambda x: (-1 / x, 1 / x**2), 0.01, 100) == 100
    assert convex_minimum(lambda _: (0.0, 0.0), 0.01, 100) == 0.01
