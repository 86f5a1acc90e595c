"""The inverse focal map: reference values, round trips, saturation, derivatives of the implicit function."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from calibrant._math import focal_map_inverse
from calibrant._math.errors import ConvergenceError
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.focal_map_inverse import inverse_focal_map_log_odds, inverse_focal_map_logits
from calibrant._math.simplex import gaps_to_top, log_softmax

GAMMAS = [-0.99, -0.9, -0.5, 0.0, 0.05, 0.5, 1.0, 2.0, 5.0, 20.0, 50.0]


def table(*rows: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(rows, dtype=dtype)


def hard_logits(num_classes: int) -> Tensor:
    """Rows that Newton's method might find hard: ties, groups, one against equal others, gaps up to 1e4."""
    rng = np.random.default_rng(num_classes)
    n, C = 20, num_classes
    rows = [rng.normal(size=(n, C)) * scale for scale in (1e-3, 0.1, 1, 3, 10, 30, 100, 1e3, 1e4)]
    rows += [
        np.take_along_axis(rng.normal(size=(n, levels)) * scale, rng.integers(levels, size=(n, C)), 1)
        for levels in (2, 3)
        for scale in (1e-6, 0.1, 1, 5, 30, 1e3)
    ]
    lead = rng.uniform(0, math.log(C) + 8, size=(n, 1))
    tops = np.arange(C) < rng.integers(1, C + 1, size=(n, 1))
    rows += [lead * (np.arange(C) == 0), lead * tops + rng.normal(size=(n, C)) * 1e-8]
    rows += [
        rng.standard_cauchy(size=(n, C)),
        -rng.exponential(size=(n, C)) * rng.uniform(0, 20, size=(n, 1)),
    ]
    return torch.from_numpy(np.concatenate(rows))


def worst(result: Tensor, expected: Tensor) -> float:
    """The largest error, relative to one plus the size."""
    return ((result - expected).abs() / (1 + expected.abs())).max().item()


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("num_classes", [2, 3, 4, 10, 100])
def test_round_trips(num_classes: int, gamma: float) -> None:
    """Map after inverse is the identity, and inverse after map, where rounding grows as 1 / (1 + gamma)."""
    log_probs = log_softmax(hard_logits(num_classes))
    there = focal_map_logits(inverse_focal_map_logits(log_probs, gamma), gamma)
    back = inverse_focal_map_logits(focal_map_logits(log_probs, gamma), gamma)
    assert worst(there, log_probs) <= 1e-12
    assert worst(back, log_probs) <= 1e-12 / min(1.0, 1 + gamma)


@given(
    st.lists(st.floats(-700, 700), min_size=2, max_size=6),
    st.floats(-0.95, 50),
)
def test_any_round_trip(row: list[float], gamma: float) -> None:
    """Map after inverse is the identity for any logits and exponent, and the top class stays on top."""
    log_probs = log_softmax(table(row))
    inverse = inverse_focal_map_logits(log_probs, gamma)
    assert worst(focal_map_logits(inverse, gamma), log_probs) <= 1e-12
    assert inverse[0, log_probs.argmax()] == inverse.max()


@given(st.floats(-5000, 5000), st.floats(-0.95, 50))
def test_any_round_trip_of_an_event(log_odds: float, gamma: float) -> None:
    scalar = torch.tensor(log_odds, dtype=torch.float64)
    assert worst(focal_map_log_odds(inverse_focal_map_log_odds(scalar, gamma), gamma), scalar) <= 1e-12


def test_round_trips_bite() -> None:
    """A temperature in place of the inverse fails the round trip, for classes and for events."""
    log_probs = log_softmax(hard_logits(3))
    cooled = log_softmax(log_probs / (3 - math.log(3) / 2))
    assert worst(focal_map_logits(cooled, 2.0), log_probs) > 1e-2
    log_odds = log_probs[:, 1] - log_probs[:, 0]
    assert worst(focal_map_log_odds(log_odds / (3 - math.log(3) / 2), 2.0), log_odds) > 1e-3


@pytest.mark.parametrize("gamma", [200.0, 1000.0])
def test_exponents_beyond_use(gamma: float) -> None:
    log_probs = log_softmax(hard_logits(3))
    assert worst(focal_map_logits(inverse_focal_map_logits(log_probs, gamma), gamma), log_probs) <= 1e-12
    assert inverse_focal_map_logits(log_probs.float(), gamma).isfinite().all()


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("num_classes", [2, 3, 10, 40])
def test_the_steps_taken_unseen_suffice(num_classes: int, gamma: float) -> None:
    """The number of steps where the residual is not looked at leaves no row unfinished."""
    log_probs = log_softmax(hard_logits(num_classes))
    top, target = gaps_to_top(focal_map_logits(log_probs, gamma))
    steps = focal_map_inverse._steps_unseen(gamma)
    exponent = torch.tensor(gamma, dtype=torch.float64)
    assert not focal_map_inverse._descend(top, target, target, exponent, steps).unfinished.any()


def test_steps_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claims above can fail: too few steps leave rows over, and that is an error."""
    monkeypatch.setattr(focal_map_inverse, "_FEW_STEPS", 1)
    monkeypatch.setattr(focal_map_inverse, "_MANY_STEPS", 0)
    with pytest.raises(ConvergenceError, match=r"did not converge in \d+ rows; use a smaller `gamma`"):
        inverse_focal_map_logits(hard_logits(10), 5.0)


def test_rounding_is_not_chased(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rounding is larger than the size of a last step, here by 1 / (1 + gamma), the steps still end."""
    step, count = focal_map_inverse._newton_step, 0

    def counting_step(*args: Any) -> tuple[Tensor, Tensor]:
        nonlocal count
        count += 1
        return step(*args)

    monkeypatch.setattr(focal_map_inverse, "_newton_step", counting_step)
    gamma = -1 + 1e-9
    log_probs = log_softmax(hard_logits(3))
    inverse = inverse_focal_map_logits(log_probs, gamma)
    # the map itself is then known to 1e-16 / 1e-9 only
    assert worst(focal_map_logits(inverse, gamma), log_probs) <= 1e-6
    assert count < 100


@pytest.mark.parametrize("gamma", GAMMAS)
def test_the_middle_and_the_corners(gamma: float) -> None:
    """The uniform distribution, the vertices and the middle of an edge stay where they are."""
    uniform = torch.zeros(1, 7, dtype=torch.float64)
    torch.testing.assert_close(inverse_focal_map_logits(uniform, gamma), uniform - math.log(7))
    corner = inverse_focal_map_logits(table([-math.inf, 1.0, -math.inf]), gamma)
    assert corner.tolist() == [[-math.inf, 0.0, -math.inf]]
    edge = inverse_focal_map_logits(table([0.5, 0.5, -math.inf]), gamma)
    torch.testing.assert_close(edge.exp(), table([0.5, 0.5, 0.0]), rtol=1e-12, atol=0)
    infinite = table([math.inf, -math.inf])
    assert torch.equal(inverse_focal_map_log_odds(infinite, gamma), infinite)


@given(st.lists(st.floats(-700, 700), min_size=2, max_size=6))
def test_gamma_zero_is_log_softmax(row: list[float]) -> None:
    """With gamma 0 the inverse is log-softmax, bit by bit."""
    assert torch.equal(inverse_focal_map_logits(table(row), 0.0), log_softmax(table(row)))


@pytest.mark.parametrize("gamma", [-0.5, 1.0, 5.0])
def test_differences_only(gamma: float) -> None:
    logits = torch.from_numpy(np.random.default_rng(2).normal(size=(50, 6)) * 3)
    result = inverse_focal_map_logits(logits, gamma)
    torch.testing.assert_close(inverse_focal_map_logits(logits + 3, gamma), result, rtol=1e-12, atol=1e-12)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    torch.testing.assert_close(
        inverse_focal_map_logits(logits[:, order], gamma), result[:, order], rtol=1e-12, atol=1e-12
    )


DERIVATIVES_AT = [[0.3, -1.2, 2.0], [0.0, 0.0, 0.0], [1.0, 1.0, -1.0], [9.0, 0.0, -7.0]]


@pytest.mark.parametrize("gamma", [-0.9, 0.5, 3.0])
def test_the_jacobians_are_inverse_matrices(gamma: float) -> None:
    """The chain rule: on changes that keep the sum, the two Jacobians undo each other."""
    for row in DERIVATIVES_AT[:3]:
        truth = log_softmax(table(row))[0]
        inverse = inverse_focal_map_logits(truth, gamma)
        back = torch.autograd.functional.jacobian(lambda z: inverse_focal_map_logits(z, gamma), truth)
        there = torch.autograd.functional.jacobian(lambda z: focal_map_logits(z, gamma), inverse)
        # both ignore a constant, and what comes out keeps the sum of the probabilities
        expected = torch.eye(3, dtype=torch.float64) - truth.exp()
        torch.testing.assert_close(there @ back, expected, rtol=1e-12, atol=1e-12)


def test_every_pairing_of_batches() -> None:
    vmap = torch.func.vmap
    logits = table(*DERIVATIVES_AT)
    gammas = torch.tensor([-0.5, 0.0, 1.0], dtype=torch.float64)
    expected = torch.stack([inverse_focal_map_logits(logits, gamma.item()) for gamma in gammas])
    results = [
        vmap(lambda g: inverse_focal_map_logits(logits, g))(gammas),
        vmap(lambda g: vmap(lambda z: inverse_focal_map_logits(z, g))(logits))(gammas),
        vmap(lambda z: vmap(lambda g: inverse_focal_map_logits(z, g))(gammas))(logits).transpose(0, 1),
        vmap(lambda z: inverse_focal_map_logits(z, gammas[0]), in_dims=1, out_dims=1)(logits[:, None])[
            None, :, 0
        ],
    ]
    for result in results[:3]:
        torch.testing.assert_close(result, expected, rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(results[3][0], expected[0], rtol=1e-13, atol=1e-15)


def test_a_large_batch_of_exponents() -> None:
    """An exponent per row stays with its row also where a table of rows would be cut into blocks."""
    logits = torch.from_numpy(np.random.default_rng(6).normal(size=(1500, 100)))
    gammas = torch.linspace(-0.5, 3, 1500, dtype=torch.float64)
    batched = torch.func.vmap(inverse_focal_map_logits)(logits, gammas)
    for i in (0, 700, 1499):
        torch.testing.assert_close(batched[i], inverse_focal_map_logits(logits[i], gammas[i].item()))
