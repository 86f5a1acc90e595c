"""Newton's method with halved steps."""

import math
from typing import Any

import numpy as np
import pytest

from calibrant._math.newton import Expansion, halved, minimise_in_box


def test_descent_stays_in_its_box() -> None:
    """A quadratic whose minimum lies outside is minimised on the wall, to the minimum along it."""
    hessian = np.array([[2.0, 0.6], [0.6, 1.0]])
    centre = np.array([3.0, 0.2])

    def bowl(point: Any) -> Expansion:
        away = point - centre
        return Expansion(0.5 * away @ hessian @ away, hessian @ away, hessian)

    found = minimise_in_box(bowl, np.array([-1.0, 0.9]), np.array([-2.0, -5.0]), np.array([1.0, 5.0]))
    np.testing.assert_allclose(found.point, [1.0, 0.2 + 0.6 * 2.0], rtol=1e-12)
    assert found.slope < 1e-9


def test_descent_leaves_a_saddle() -> None:
    def saddle(point: Any) -> Expansion:
        x, y = point
        gradient = np.array([-math.sin(x), 2 * y])
        return Expansion(math.cos(x) + y * y, gradient, np.diag([-math.cos(x), 2.0]))

    found = minimise_in_box(saddle, np.array([0.1, 1.0]), np.array([-6.0, -6.0]), np.array([6.0, 6.0]))
    np.testing.assert_allclose(np.abs(found.point), [math.pi, 0.0], atol=1e-8)


def test_step_is_halved_until_it_descends() -> None:
    """A step on x² that overshoots is halved until an eighth of it lands lower, on the other side."""
    seen: list[float] = []

    def at(part: float) -> tuple[float, float, float]:
        seen.append(part)
        place = 1.0 - 15.5 * part
        return place**2, -2 * 15.5 * part, place

    assert halved(at, 1.0, flatter=lambda _: False) == 1.0 - 15.5 / 8
    assert seen == [1.0, 0.5, 0.25, 0.125]


@pytest.mark.parametrize("flatter", [True, False])
def test_gradient_decides_where_values_are_level(flatter: bool) -> None:
    """Where values differ only by rounding, a step counts if the gradient shrinks and not otherwise."""
    found = halved(lambda part: (1.0, -1.0 * part, part), 1.0, flatter=lambda _: flatter, halvings=10)
    assert found == (1.0 if flatter else None)


def test_nothing_is_found_uphill() -> None:
    """A step along which the function only rises is given up after the halvings asked for."""
    seen: list[float] = []

    def at(part: float) -> tuple[float, float, float]:
        seen.append(part)
        return 1.0 + part, -part, part

    assert halved(at, 1.0, flatter=lambda _: True, halvings=5) is None
    assert len(seen) == 5
