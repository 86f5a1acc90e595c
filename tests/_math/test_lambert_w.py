"""Both real branches of Lambert's W."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant._math.lambert_w import lambert_w

LEAST = -1 / math.e


def compare(x: float, branch: int) -> None:
    """Against 40 digits, up to what a rounding error of x does to W."""
    with mpmath.workdps(40):
        expected = float(mpmath.lambertw(x, branch).real)
    found = lambert_w(torch.tensor(x, dtype=torch.float64), branch=branch).item()
    slope = abs(1 + expected) / max(abs(expected), 1e-300)  # of log x by W
    assert found == pytest.approx(expected, rel=1e-15 + 4e-16 / max(slope, 2e-8), abs=1e-300)


@given(st.floats(LEAST, 1e300))
def test_upper_branch(x: float) -> None:
    """Branch 0, at least -1, from -1/e to the largest numbers."""
    compare(x, 0)


@given(st.floats(LEAST, -1e-300))
def test_lower_branch(x: float) -> None:
    """Branch -1, at most -1, from -1/e to the smallest numbers."""
    compare(x, -1)


@given(st.integers(1, 15))
def test_near_the_branch_point(power: int) -> None:
    """Both branches meet at -1/e as square roots of the distance."""
    x = LEAST + 10.0**-power * -LEAST
    for branch in (0, -1):
        compare(x, branch)


def test_special_points_and_domain() -> None:
    """W(0) = 0, W(e) = 1, W(-1/e) = -1; NaN outside the branch's domain."""
    points = torch.tensor([0.0, math.e, LEAST, -1.0, math.nan], dtype=torch.float64)
    assert lambert_w(points)[:3].tolist() == pytest.approx([0, 1, -1], abs=1e-7)
    assert lambert_w(points)[3:].isnan().all()
    assert lambert_w(points, branch=-1)[[0, 1, 3, 4]].isnan().all()
