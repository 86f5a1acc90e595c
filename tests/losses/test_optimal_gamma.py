"""The exponent whose gradient equals cross-entropy's at a given probability."""

import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant import losses


def gradient_factor(p: float, gamma: float) -> float:
    """How many times cross-entropy's gradient focal loss's is."""
    return (1 - p) ** gamma * (1 - gamma * p * math.log(p) / (1 - p))


@given(st.floats(0.001, 0.4999))
def test_the_factor_is_one(p0: float) -> None:
    """At the returned exponent the gradients are equal; with a little more focal loss's is smaller."""
    gamma = losses.optimal_gamma(p0)
    # Near 1/2 the factor hardly depends on the exponent, far below the exponent is in the hundreds.
    assert gradient_factor(p0, gamma) == pytest.approx(1, abs=1e-11)
    assert gradient_factor(p0, 1.1 * gamma + 0.1) < 1
    if gamma > 0.01:
        assert gradient_factor(p0, 0.9 * gamma) > 1


@pytest.mark.parametrize("p0", [0.49, 0.499, 0.4994, 0.4995, 0.4997, 0.4999])
def test_eleven_digits_on_both_sides_of_the_series(p0: float) -> None:
    """Near 1/2, where a series takes over from Lambert's W, the root agrees with one found in 40 digits."""
    with mpmath.workdps(40):
        a = mpmath.mpf(p0)
        ratio = -a * mpmath.log(a) / (1 - a)
        kappa = -mpmath.log(1 - a) / ratio
        root = mpmath.findroot(lambda x: mpmath.log(1 + x) / x - kappa, 2 * (1 - kappa))
        expected = float(root / ratio)
    assert losses.optimal_gamma(p0) == pytest.approx(expected, rel=1e-11, abs=0)


def test_from_one_half_on_it_is_zero() -> None:
    """From 1/2 on every exponent pushes less than cross-entropy."""
    assert [losses.optimal_gamma(p) for p in (0.5, 0.7, 0.999)] == [0.0, 0.0, 0.0]
    assert 0 < losses.optimal_gamma(0.5 - 1e-9) < 1e-8


def test_tensors_and_the_domain() -> None:
    """A tensor gives float64 of its shape; outside (0, 1) there is no such exponent."""
    values = losses.optimal_gamma(torch.tensor([[0.25, 0.5], [0.0, 1.0]], dtype=torch.float64))
    assert values.dtype == torch.float64
    assert values[0].tolist() == [losses.optimal_gamma(0.25), 0.0]
    assert values[1].isnan().all()
