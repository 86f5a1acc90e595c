"""The focal calibration map: reference values, laws, saturation, derivatives."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.simplex import log_softmax

Golden = Callable[[str], Any]

# The reference took 1 - p as a difference in 80 digits and more; smaller results have none of them left.
SMALLEST_REFERENCE = 1e-100


def table(*rows: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(rows, dtype=dtype)


def test_log_probabilities_are_the_references(golden: Golden) -> None:
    """Both log p and 1 - max p agree with 80-digit arithmetic to 1e-12, relative, up to gaps of 1400."""
    for case in golden("focal_map.json")["forward"]:
        log_probs = focal_map_logits(table(case["logits"]), case["gamma"])[0]
        expected = torch.tensor(case["log_p"], dtype=torch.float64)
        torch.testing.assert_close(log_probs, expected, rtol=1e-12, atol=SMALLEST_REFERENCE)
        miss = -math.expm1(log_probs.max().item())
        assert miss == pytest.approx(case["one_minus_pmax"], rel=1e-12, abs=SMALLEST_REFERENCE)


def test_gradients_are_the_references(golden: Golden) -> None:
    for case in golden("focal_map.json")["grad"]:
        logits = table(case["logits"]).requires_grad_()
        (gradient,) = torch.autograd.grad(focal_map_logits(logits, case["gamma"])[0, case["k"]], logits)
        expected = table(case["dlogpk_dlogits"])
        # the reference was differentiated in float64 and holds 1e-15, not 1e-12 of a vanishing gradient
        torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("gamma", [-0.5, 0.5, 3.0])
def test_a_vanishing_gradient_keeps_its_digits(gamma: float) -> None:
    """At log-odds s of 200, d log p_top / ds is (1 - p_top)(gamma + 1), to relative precision."""
    logits = table([0.0, 200.0]).requires_grad_()
    log_probs = focal_map_logits(logits, gamma)
    (gradient,) = torch.autograd.grad(log_probs[0, 1], logits)
    assert gradient[0, 1].item() == pytest.approx((1 + gamma) * log_probs[0, 0].exp().item(), rel=1e-12)


@given(st.lists(st.floats(-700, 700), min_size=2, max_size=6))
def test_gamma_zero_is_log_softmax(row: list[float]) -> None:
    """With gamma 0 the map is log-softmax, bit by bit, and the identity of log-odds."""
    logits = table(row)
    assert torch.equal(focal_map_logits(logits, 0.0), log_softmax(logits))
    assert torch.equal(focal_map_log_odds(logits, 0.0), logits)


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=8), st.floats(-0.95, 50))
def test_the_top_class_stays_on_top(row: list[float], gamma: float) -> None:
    logits = table([*row, max(row), max(row) - 1e-15])
    mapped = focal_map_logits(logits, gamma)[0]
    assert mapped[logits.argmax()] == mapped.max()


@pytest.mark.parametrize("gamma", [-0.9, 20.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_second_by_one_unit_stays_second(dtype: torch.dtype, gamma: float) -> None:
    """A runner-up one unit in the last place below the top is not lifted over it, in 2000 rows."""
    logits = torch.from_numpy(np.random.default_rng(5).normal(size=(2000, 4))).to(dtype).clamp(max=1.9)
    logits[:, 3] = 2.0
    logits[:, 0] = torch.nextafter(logits[:, 3], logits[:, 0])
    mapped = focal_map_logits(logits, gamma)
    assert (mapped[:, 3] == mapped.amax(-1)).all()


@given(st.integers(2, 9), st.floats(-0.95, 50), st.floats(-5, 0))
def test_equal_logits_give_equal_results(num_top: int, gamma: float, rest: float) -> None:
    mapped = focal_map_logits(table([3.0] * num_top + [3.0 + rest] * 3), gamma)[0]
    assert mapped[:num_top].unique().numel() == 1


@given(st.floats(-700, 700), st.floats(-0.95, 50))
def test_an_event_is_two_classes(log_odds: float, gamma: float) -> None:
    scalar = torch.tensor(log_odds, dtype=torch.float64)
    result = focal_map_log_odds(scalar, gamma)
    assert torch.equal(focal_map_log_odds(-scalar, gamma), -result)
    zero, one = focal_map_logits(table([0.0, log_odds]), gamma)[0]
    torch.testing.assert_close(result, one - zero, rtol=1e-12, atol=1e-14 * (1 + gamma))


def test_negative_gamma_lowers_confidence_of_events_above_the_limit() -> None:
    """Gamma above 2 - 2 / ln 2 = -0.8854 and below 0 lowers confidence; below, it raises it at even odds."""
    log_odds = torch.linspace(0.01, 100, 5000, dtype=torch.float64)
    limit = 2 - 2 / math.log(2)
    assert (focal_map_log_odds(log_odds, limit + 1e-3) < log_odds).all()
    assert focal_map_log_odds(log_odds, limit - 1e-3)[0] > log_odds[0]
    assert (focal_map_log_odds(log_odds, -0.99).diff() > 0).all()


def test_float16_ends_at_its_largest_number() -> None:
    """A log-probability too small for float16 becomes its lowest number and stays in order."""
    mapped = focal_map_logits(table([3e4, 0.0], dtype=torch.float16), 7.0)
    assert mapped.tolist() == [[0.0, -65504.0]]


def test_one_exponent_per_column() -> None:
    """The binary map takes a gamma that broadcasts; each column comes out as with its own number."""
    log_odds = torch.linspace(-20, 20, 30, dtype=torch.float64).reshape(10, 3)
    gammas = torch.tensor([-0.5, 0.0, 3.0], dtype=torch.float64)
    together = focal_map_log_odds(log_odds, gammas)
    apart = [focal_map_log_odds(log_odds[:, k], float(gammas[k])) for k in range(3)]
    torch.testing.assert_close(together, torch.stack(apart, dim=1), rtol=1e-15, atol=0)
