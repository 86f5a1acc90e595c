"""The limit laws of the largest excursion and of the range of a random walk."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from calibrant.metrics.calibration_tests import excursion_tail, range_tail

TAILS = pytest.mark.parametrize("tail", [excursion_tail, range_tail])


@pytest.mark.parametrize("x", [0.5, 0.9, 1.5, 1.7999999, 1.8, 2.5, 4.0, 7.0])
def test_excursion_by_reflection(x: float) -> None:
    """P(sup|B| <= x) as the alternating sum over images of the interval, 401 of them."""
    k = np.arange(-200, 201)
    images = (-1.0) ** k * (norm.cdf((2 * k + 1) * x) - norm.cdf((2 * k - 1) * x))
    assert excursion_tail(x) == pytest.approx(1 - math.fsum(images), abs=1e-13)


@pytest.mark.parametrize("x", [0.7, 1.0, 1.7999999, 1.8, 2.5, 4.0])
def test_range_by_integrating_fellers_density(x: float) -> None:
    """The tail is the integral of Feller's density 8 sum (-1)^(k-1) k^2 phi(k r)."""
    k = np.arange(1, 200)
    signs = (-1.0) ** (k - 1)
    above = quad(lambda r: 8 * math.fsum(signs * k**2 * norm.pdf(k * r)), x, 15, epsabs=1e-13, limit=200)[0]
    assert range_tail(x) == pytest.approx(above, abs=1e-10)  # of the quadrature


@TAILS
def test_tails_fall_from_one_to_zero(tail: Callable[[float], float]) -> None:
    """Between 1 and 0, falling, without a step where the series change, and never negative."""
    grid = np.linspace(0, 12, 2001)
    values = np.array([tail(x) for x in grid])
    assert values[0] == 1
    assert (np.diff(values) <= 0).all()
    assert 0 <= values[-1] < 1e-30
    assert tail(1.8 - 1e-12) == pytest.approx(tail(1.8), abs=1e-11)
