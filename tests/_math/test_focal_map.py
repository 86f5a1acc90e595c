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

from calibrant._math.errors import InputError
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.simplex import log_one_minus_softmax, log_softmax

Golden = Callable[[str], Any]
Map = Callable[[Tensor, float], Tensor]

GAMMAS = [-0.9, -0.5, 0.0, 0.3, 1.0, 2.0, 5.0, 20.0, 50.0]
# The reference took 1 - p as a difference in 80 digits and more; smaller results have none of them left.
SMALLEST_REFERENCE = 1e-100


def table(*rows: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(rows, dtype=dtype)


def some_logits(seed: int = 0) -> list[Tensor]:
    """Rows of 2, 3, 10 and 100 classes, from near-uniform to sure."""
    rng = np.random.default_rng(seed)
    scales = np.repeat([0.01, 0.3, 1.0, 3.0, 10.0, 100.0], 6)[:, None]
    return [torch.from_numpy(rng.normal(size=(36, C)) * scales) for C in (2, 3, 10, 100)]


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


def fixes_the_middle_and_the_corners(focal_map: Map, gamma: float) -> bool:
    """The uniform distribution and the vertices stay where they are."""
    uniform = focal_map(torch.zeros(1, 7, dtype=torch.float64), gamma)
    corner = focal_map(table([-math.inf, 1.0, -math.inf]), gamma).exp()
    edge = focal_map(table([0.5, 0.5, -math.inf]), gamma).exp()
    return (
        torch.allclose(uniform, torch.full_like(uniform, -math.log(7)), rtol=1e-12, atol=0)
        and corner.tolist() == [[0.0, 1.0, 0.0]]
        and torch.allclose(edge, table([0.5, 0.5, 0.0]), rtol=1e-12, atol=0)
    )


def rows_sum_to_one(focal_map: Map, gamma: float) -> bool:
    sums = torch.cat([focal_map(logits, gamma).exp().sum(-1) for logits in some_logits()])
    return torch.allclose(sums, torch.ones_like(sums), rtol=1e-12, atol=0)


def keeps_order(focal_map: Map, gamma: float) -> bool:
    """The classes stay in order, and the top one is the same entry."""
    for logits in some_logits():
        mapped = focal_map(logits, gamma)
        in_order = mapped.gather(-1, logits.argsort(-1))
        slack = 1e-12 * (1 + in_order.abs())
        if not ((in_order.diff() >= -slack[:, 1:]).all() and (mapped.argmax(-1) == logits.argmax(-1)).all()):
            return False
    return True


def sees_differences_only(focal_map: Map, gamma: float) -> bool:
    """A constant added to the logits changes nothing, and classes may be renamed."""
    generator = torch.Generator().manual_seed(1)
    for logits in some_logits():
        mapped = focal_map(logits, gamma)
        order = torch.randperm(logits.shape[1], generator=generator)
        tolerance = {"rtol": 1e-12 * (2 + gamma), "atol": 1e-12 * (2 + gamma)}  # slope of the map
        if not torch.allclose(focal_map(logits + 3.0, gamma), mapped, **tolerance):
            return False
        if not torch.allclose(focal_map(logits[:, order], gamma), mapped[:, order], **tolerance):
            return False
    return True


def undoes_focal_loss(focal_map: Map, gamma: float) -> bool:
    """Where the true probabilities are the map's, the risk of focal loss is stationary in the logits."""
    for logits in some_logits()[:3]:
        moderate = (logits / logits.abs().amax(-1, keepdim=True).clamp(min=4.0) * 4.0).requires_grad_()
        truth = focal_map(moderate.detach(), gamma).exp()
        losses = -(gamma * log_one_minus_softmax(moderate)).exp() * moderate.log_softmax(-1)
        (slope,) = torch.autograd.grad((truth * losses).sum(), moderate)
        size = (truth * losses).detach().amax(-1, keepdim=True).abs()
        if not (slope.abs() <= 1e-12 * (1 + abs(gamma)) * (size + 1e-12)).all():
            return False
    return True


def approaches_a_temperature(focal_map: Map, gamma: float) -> bool:
    """Far out the log-odds of two classes are (gamma + 1) s - log(gamma + 1)."""
    log_probs = focal_map(table([0.0, 200.0]), gamma)[0]
    expected = (gamma + 1) * 200.0 - math.log1p(gamma)
    return math.isclose((log_probs[1] - log_probs[0]).item(), expected, rel_tol=1e-12)


LAWS = [
    fixes_the_middle_and_the_corners,
    rows_sum_to_one,
    keeps_order,
    sees_differences_only,
    undoes_focal_loss,
    approaches_a_temperature,
]


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("law", LAWS)
def test_law(law: Callable[[Map, float], bool], gamma: float) -> None:
    assert law(focal_map_logits, gamma)


def scores_with(logits: Tensor, gamma: float, *, power: float = 1.0, entropy: float = 1.0) -> Tensor:
    """The map's formula written out, with a factor to spoil each of its two corrections."""
    log_probs, log_misses = log_softmax(logits), log_one_minus_softmax(logits)
    ratio = -(log_probs - log_misses).exp() * log_probs.clamp(min=-1e4)
    return log_probs - power * gamma * log_misses - (entropy * gamma * ratio).log1p()


FAULTS: list[tuple[Callable[[Map, float], bool], Map]] = [
    (rows_sum_to_one, scores_with),
    (undoes_focal_loss, lambda z, g: scores_with(z, g, power=-1.0).log_softmax(-1)),
    (undoes_focal_loss, lambda z, g: scores_with(z, g, entropy=0.0).log_softmax(-1)),
    (undoes_focal_loss, lambda z, g: (z * (1 + g - math.log1p(g) / 2)).log_softmax(-1)),
    (approaches_a_temperature, lambda z, g: scores_with(z, g, entropy=0.0).log_softmax(-1)),
    (approaches_a_temperature, lambda z, g: scores_with(z, g, power=0.99).log_softmax(-1)),
    (keeps_order, lambda z, g: (-(1 + g) * z).log_softmax(-1)),
    (keeps_order, lambda z, g: scores_with(z.round(decimals=2), g).log_softmax(-1)),
    (sees_differences_only, lambda z, _: (z * z.abs()).log_softmax(-1)),
    (sees_differences_only, lambda z, g: focal_map_logits(z, g) + torch.linspace(0, 1e-9, z.shape[-1])),
    (fixes_the_middle_and_the_corners, lambda z, g: scores_with(z, g).log_softmax(-1)),  # inf - inf
    (fixes_the_middle_and_the_corners, lambda z, g: focal_map_logits(z, g).clamp(min=-700)),
]


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_the_laws_bite(number: int) -> None:
    """A map with a planted fault breaks the law that it should."""
    law, faulty = FAULTS[number]
    assert not law(faulty, 2.0)


def test_the_formula_written_out_agrees() -> None:
    """The planted faults above start from a sound formula: unspoilt, it is the map."""
    for logits in some_logits():
        moderate = logits.clamp(-15, 15)
        torch.testing.assert_close(
            scores_with(moderate, 2.0).log_softmax(-1),
            focal_map_logits(moderate, 2.0),
            rtol=1e-10,
            atol=1e-12,
        )


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


def test_refused_shape_of_gamma() -> None:
    with pytest.raises(InputError, match=r"`gamma` must be one number; got a tensor of shape \(2,\)"):
        focal_map_logits(table([0.0, 1.0]), torch.tensor([1.0, 2.0]))


def test_one_exponent_per_column() -> None:
    """The binary map takes a gamma that broadcasts; each column comes out as with its own number."""
    log_odds = torch.linspace(-20, 20, 30, dtype=torch.float64).reshape(10, 3)
    gammas = torch.tensor([-0.5, 0.0, 3.0], dtype=torch.float64)
    together = focal_map_log_odds(log_odds, gammas)
    apart = [focal_map_log_odds(log_odds[:, k], float(gammas[k])) for k in range(3)]
    torch.testing.assert_close(together, torch.stack(apart, dim=1), rtol=1e-15, atol=0)
