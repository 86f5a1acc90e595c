"""What the focal map and its inverse share: saturation, dtypes, derivatives, refused exponents."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from calibrant._math.errors import InputError
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.focal_map_inverse import inverse_focal_map_log_odds, inverse_focal_map_logits

# torch's forward mode scripts its own formulas on first use, and says that scripting is deprecated.
forward_mode = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

HALF = [torch.float16, torch.bfloat16]
SATURATED = [[1e4, 0.0, -1e4], [1e4, 1e4, -1e4], [0.0, 0.0, 0.0], [-1e4, 1e4, 9.9e3]]
DERIVATIVES_AT = [[0.3, -1.2, 2.0], [0.0, 0.0, 0.0], [1.0, 1.0, -1.0], [9.0, 0.0, -7.0]]


@dataclass(frozen=True)
class Maps:
    of_logits: Callable[[Tensor, float | Tensor], Tensor]
    of_log_odds: Callable[[Tensor, float | Tensor], Tensor]


@pytest.fixture(params=["map", "inverse"])
def maps(request: pytest.FixtureRequest) -> Maps:
    if request.param == "map":
        return Maps(focal_map_logits, focal_map_log_odds)
    return Maps(inverse_focal_map_logits, inverse_focal_map_log_odds)


def table(*rows: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(rows, dtype=dtype)


@pytest.mark.parametrize("gamma", [-0.9, -0.5, 0.0, 0.5, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF])
def test_saturated_logits(maps: Maps, dtype: torch.dtype, gamma: float) -> None:
    """At gaps of 2e4 values and gradients, also by gamma, are finite, and the type is the caller's."""
    logits = table(*SATURATED, dtype=dtype).requires_grad_()
    exponent = torch.tensor(gamma, requires_grad=True)
    mapped = maps.of_logits(logits, exponent)
    assert mapped.dtype == dtype
    assert mapped.isfinite().all()
    assert (mapped <= 0).all()
    for column in range(3):
        inputs = (logits, exponent)
        for gradient in torch.autograd.grad(mapped[:, column].float().sum(), inputs, retain_graph=True):
            assert gradient.isfinite().all()
    log_odds = table([1e4, -1e4, 0.0], dtype=dtype).requires_grad_()
    result = maps.of_log_odds(log_odds, gamma)
    result.float().sum().backward()
    assert result.isfinite().all()
    assert log_odds.grad is not None
    assert log_odds.grad.isfinite().all()


@pytest.mark.parametrize("gamma", [-0.9, 0.5, 3.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_saturated_second_derivatives(maps: Maps, dtype: torch.dtype, gamma: float) -> None:
    """At gaps of 2e4 second derivatives are finite."""
    logits = table(*SATURATED, dtype=dtype).requires_grad_()
    for column in range(3):
        value = maps.of_logits(logits, gamma)[:, column].sum()
        (first,) = torch.autograd.grad(value, logits, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), logits)
        assert second.isfinite().all()


@forward_mode
@pytest.mark.parametrize("gamma", [-0.5, 0.0, 0.5, 2.0, 5.0])
def test_derivatives(maps: Maps, gamma: float) -> None:
    """First and second derivatives by logits and gamma agree with differences, at ties and at gamma 0 too."""
    exponent = torch.tensor(gamma, dtype=torch.float64, requires_grad=True)
    logits = table(*DERIVATIVES_AT).requires_grad_()
    log_odds = table([-3.0, 0.0, 1e-9, 2.0, 15.0]).requires_grad_()
    for function, scores in ((maps.of_logits, logits), (maps.of_log_odds, log_odds)):
        assert gradcheck(function, (scores, exponent), check_forward_ad=True)
        assert gradgradcheck(function, (scores, exponent), fast_mode=True)


@forward_mode
def test_function_transforms(maps: Maps) -> None:
    logits = table(*DERIVATIVES_AT)
    weights = table([0.5, -1.0, 2.0]).cos()

    def value(row: Tensor, gamma: Tensor) -> Tensor:
        return (weights * maps.of_logits(row, gamma)).sum()

    gammas = torch.tensor([-0.5, 0.0, 1.0, 3.0], dtype=torch.float64)
    batched = torch.func.vmap(torch.func.grad(value, argnums=(0, 1)))(logits, gammas)
    hessians = torch.func.vmap(torch.func.hessian(value))(logits, gammas)
    for i in range(4):
        row, gamma = logits[i].clone().requires_grad_(), gammas[i].clone().requires_grad_()
        by_row, by_gamma = torch.autograd.grad(value(row, gamma), (row, gamma))
        torch.testing.assert_close(batched[0][i], by_row, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(batched[1][i], by_gamma, rtol=1e-12, atol=1e-14)
        hessian = torch.autograd.functional.hessian(lambda r, g=gammas[i]: value(r, g), logits[i])
        torch.testing.assert_close(hessians[i], hessian, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gamma", [-0.5, 1.0, 5.0])
def test_float32_is_float64_rounded(maps: Maps, gamma: float, rng: np.random.Generator) -> None:
    """float32 agrees with float64 to 1e-5; half precision is the float32 result, rounded once."""
    scales = np.repeat([0.01, 0.3, 1.0, 3.0, 10.0, 100.0], 6)[:, None]
    # The map: half a unit in the last place of gaps of a few hundred. The inverse: of one plus the size.
    allowed = (1e-6 * (1 + gamma), 0.0) if maps.of_logits is focal_map_logits else (1e-5, 1e-6)
    for num_classes in (2, 3, 10, 100):
        logits = torch.from_numpy(rng.normal(size=(36, num_classes)) * scales).float()
        for function, atol in zip((maps.of_logits, maps.of_log_odds), allowed, strict=True):
            single, double = function(logits, gamma), function(logits.double(), gamma)
            torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=atol)
            for dtype in HALF:
                half = logits.to(dtype)
                assert torch.equal(function(half, gamma), function(half.float(), gamma).to(dtype))


def test_blocks_of_rows_are_rows(maps: Maps, rng: np.random.Generator) -> None:
    """A table too large for one block gives what its rows give, values and gradients."""
    logits = torch.from_numpy(rng.normal(size=(3000, 100))).requires_grad_()
    some = torch.tensor([0, 1309, 1310, 1311, 2999])
    few = logits.detach()[some].requires_grad_()
    mapped, expected = maps.of_logits(logits, 2.0), maps.of_logits(few, 2.0)
    mapped.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(mapped[some], expected, rtol=1e-14, atol=0)
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad[some], few.grad, rtol=1e-12, atol=1e-14)


def test_nan_passes_through(maps: Maps) -> None:
    logits = table([0.0, math.nan, 1.0], [0.0, 2.0, 1.0])
    assert maps.of_logits(logits, 2.0).isnan().all(-1).tolist() == [True, False]
    assert maps.of_log_odds(logits, 2.0).isnan().tolist() == logits.isnan().tolist()


def test_no_value_is_looked_at(maps: Maps) -> None:
    """Away from the CPU no branch depends on a value, so the device need not be waited for."""
    logits = torch.empty(4, 3, device="meta", requires_grad=True)
    gamma = torch.empty((), device="meta", requires_grad=True)
    (maps.of_logits(logits, gamma).sum() + maps.of_log_odds(logits, gamma).sum()).backward()
    assert logits.grad is not None
    assert logits.grad.shape == (4, 3)


@pytest.mark.parametrize("gamma", [-1.0, -1.5, math.nan, math.inf, -math.inf])
def test_refused_exponents(maps: Maps, gamma: float) -> None:
    for function in (maps.of_logits, maps.of_log_odds):
        with pytest.raises(InputError, match=r"`gamma` must be finite and greater than -1.*got"):
            function(table([0.0, 1.0]), gamma)
