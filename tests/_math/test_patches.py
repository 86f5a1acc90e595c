"""Polynomials on small patches."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant._math.newton import Expansion, minimise_in_box
from calibrant._math.patches import Patch

_WHERE = np.array([0.31, -0.17])


def bowl(point: np.ndarray) -> Expansion:
    """A function that is no polynomial, least at one place."""
    x, y = point - _WHERE
    slope = np.array([np.sinh(x) + y * np.exp(x * y), 2 * y + x * np.exp(x * y)])
    mixed = np.exp(x * y) * (1 + x * y)
    hessian = np.array([[np.cosh(x) + y * y * np.exp(x * y), mixed], [mixed, 2 + x * x * np.exp(x * y)]])
    return Expansion(float(np.cosh(x) + y * y + np.exp(x * y)), slope, hessian)


@pytest.mark.parametrize(("side", "counts"), [(0.5, (3, 4)), (0.2, (3, 3)), (0.02, (2, 2))])
def test_the_minimum_is_that_of_the_function_as_far_as_the_model_says(side, counts) -> None:
    """On sheared patches of several sizes; what is missed at the nodes bounds how far off it is."""
    patch = Patch(_WHERE + 0.4 * side, np.array([[side, 0.3 * side], [0.0, side]]), counts)
    model = patch.model([bowl(node) for node in patch.nodes])
    found = minimise_in_box(model, patch.centre, patch.centre - side, patch.centre + side, tolerance=1e-14)
    known = np.abs(np.linalg.inv(bowl(_WHERE).hessian)) @ model.misses
    assert (np.abs(found.point - _WHERE) <= known + 1e-13).all()
    assert known.max() < 1e-4
    assert patch.outside(found.point) < 1 < patch.outside(patch.centre + 1.5 * side)
