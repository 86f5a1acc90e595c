"""Log-odds of the true class, and focal loss as a function of them."""

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant._math.simplex import focal_value, see_true_class, softplus


@given(st.lists(st.floats(-700, 700), min_size=2, max_size=6), st.integers(0, 5))
def test_log_odds_are_logits_against_the_others(row: list[float], label: int) -> None:
    """The log-odds are z_t minus the log-sum-exp of the others, to 50 digits."""
    label %= len(row)
    with mpmath.workdps(50):
        others = [mpmath.mpf(z) for k, z in enumerate(row) if k != label]
        expected = float(row[label] - mpmath.log(mpmath.fsum(mpmath.exp(z) for z in others)))
    found = see_true_class(torch.tensor([row], dtype=torch.float64), torch.tensor([label])).log_odds
    # Rounded at the size of the logits.
    assert found.item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_gradient_of_the_log_odds() -> None:
    logits = torch.tensor([[1.0, 2.0, -1.0]], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(see_true_class(logits, torch.tensor([1])).log_odds, logits)
    first = 1 / (1 + torch.tensor(-2.0, dtype=torch.float64).exp()).item()
    assert gradient[0].tolist() == pytest.approx([-first, 1.0, first - 1], abs=1e-15)


@pytest.mark.parametrize("x", [-800.0, -50.0, -21.0, 0.0, 19.5, 25.0, 39.9, 40.1, 800.0])
def test_softplus_keeps_its_digits(x: float) -> None:
    """log(1 + exp(x)) to rounding, also beyond 20, where torch's own stops."""
    with mpmath.workdps(40):
        expected = float(mpmath.log1p(mpmath.exp(x)))
    assert softplus(torch.tensor(x, dtype=torch.float64)).item() == pytest.approx(expected, rel=1e-15, abs=0)


@pytest.mark.parametrize("gamma", [-0.9, -0.5, 0.0, 0.3, 1.0, 2.0, 7.5])
@pytest.mark.parametrize("s", [-700.0, -30.0, -1.0, 0.0, 3.0, 39.0, 41.0, 60.0])
def test_focal_value(s: float, gamma: float) -> None:
    """-(1 - p)^gamma log p and its derivative agree with 60-digit arithmetic."""
    with mpmath.workdps(60):

        def exact(t: mpmath.mpf) -> mpmath.mpf:
            p = 1 / (1 + mpmath.exp(-t))
            return -((1 - p) ** gamma) * mpmath.log(p)

        expected, slope = float(exact(mpmath.mpf(s))), float(mpmath.diff(exact, mpmath.mpf(s)))
    leaf = torch.tensor(s, dtype=torch.float64, requires_grad=True)
    value = focal_value(leaf, gamma)
    (gradient,) = torch.autograd.grad(value, leaf)
    assert value.item() == pytest.approx(expected, rel=1e-12, abs=0)
    assert gradient.item() == pytest.approx(slope, rel=1e-11, abs=1e-300)
