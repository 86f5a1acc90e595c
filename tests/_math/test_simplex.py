"""Log-softmax, log(1 - softmax) and log(1 - exp): digits kept where a network is sure of itself."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from calibrant._math.scores import steady_sigmoid
from calibrant._math.simplex import log_one_minus_softmax, log_softmax, split_top, top_class

GAPS = st.lists(st.floats(-60, 60), min_size=2, max_size=8)


def table(*rows: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(rows, dtype=dtype)


@given(GAPS)
def test_log_softmax_is_torchs(row: list[float]) -> None:
    ours = log_softmax(table(row))
    torch.testing.assert_close(ours, table(row).log_softmax(-1), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.exp().sum(), torch.tensor(1.0, dtype=torch.float64), rtol=1e-12, atol=0)


@pytest.mark.parametrize("gap", [1.0, 30.0, 40.0, 300.0, 700.0])
def test_log_softmax_of_the_top_keeps_its_digits(gap: float) -> None:
    """The larger of two log-probabilities is -log1p(exp(-gap)), relatively; torch's rounds to zero."""
    ours = log_softmax(table([0.0, gap]))[0, 1].item()
    assert ours == pytest.approx(-math.log1p(math.exp(-gap)), rel=1e-12, abs=0)
    theirs = table([0.0, gap]).log_softmax(-1)[0, 1].item()
    assert gap < 40 or theirs == 0.0, "torch has become as good; drop ours"


@given(GAPS)
def test_complement_of_every_class(row: list[float]) -> None:
    """log(1 - p_i) is the logarithm of the sum of the other probabilities."""
    log_probs = table(row).log_softmax(-1)[0]
    expected = [torch.cat([log_probs[:i], log_probs[i + 1 :]]).logsumexp(0) for i in range(len(row))]
    torch.testing.assert_close(
        log_one_minus_softmax(table(row))[0], torch.stack(expected), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("function", [log_softmax, log_one_minus_softmax])
def test_derivatives(function: object, rng: np.random.Generator) -> None:
    logits = torch.from_numpy(rng.normal(size=(3, 4))).requires_grad_()
    assert gradcheck(function, (logits,))
    assert gradgradcheck(function, (logits,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_complement_of_a_sure_class_is_finite(dtype: torch.dtype) -> None:
    """At gaps of 1e4 log(1 - p) is the gap to the runner-up, and its gradient is finite."""
    logits = table([10_000.0, 0.0, -10_000.0], dtype=dtype).requires_grad_()
    complement = log_one_minus_softmax(logits)
    torch.testing.assert_close(
        complement, table([-10_000.0, 0.0, 0.0], dtype=dtype), rtol=torch.finfo(dtype).eps, atol=0
    )
    complement[0, 0].backward()
    torch.testing.assert_close(logits.grad, table([-1.0, 1.0, 0.0], dtype=dtype))


def test_a_vertex() -> None:
    vertex = table([-math.inf, 3.0, -math.inf])
    assert log_softmax(vertex).tolist() == [[-math.inf, 0.0, -math.inf]]
    complement = log_one_minus_softmax(vertex)
    assert complement[0, [0, 2]].tolist() == [0.0, 0.0]
    assert complement[0, 1] < -1e20


def test_split_adds_up(rng: np.random.Generator) -> None:
    """The odds, their logarithm, the shares and the probabilities of the others tell the same story."""
    logits = torch.from_numpy(rng.normal(size=(10, 5)) * 3)
    split = split_top(logits)
    probs = logits.softmax(-1)
    top = probs.amax(-1, keepdim=True)
    torch.testing.assert_close(split.odds, (1 - top) / top, rtol=1e-10, atol=0)  # 1 - top cancels
    torch.testing.assert_close(split.log_odds, split.odds.log(), rtol=1e-12, atol=1e-14)
    others = probs.scatter(-1, split.top, 0.0)
    torch.testing.assert_close(split.probs_of_others(), others, rtol=1e-12, atol=0)
    torch.testing.assert_close(split.shares_of_others(), others / others.sum(-1, keepdim=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_top_class_is_the_first_of_the_largest(dtype: torch.dtype) -> None:
    """Ties go to the first, in every type and layout, and a gradient is no obstacle."""
    logits = torch.tensor(
        [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-9.0, -7.0, -8.0]], dtype=dtype, requires_grad=True
    )
    assert top_class(logits).tolist() == [1, 0, 1]
    assert top_class(logits.T).tolist() == [1, 0, 0]


def test_equal_scores_have_equal_probabilities() -> None:
    """Of 67 equal scores the last three, which are no whole vector, are rounded as the others are."""
    scores = torch.arange(200, dtype=torch.float64).sin()
    each = torch.stack([steady_sigmoid(score.repeat(67)) for score in scores])
    assert bool((each == each[:, :1]).all())
    assert float((each[:, 0] - scores.sigmoid()).abs().max()) < 1e-15
    assert steady_sigmoid(torch.empty(0)).shape == (0,)


def test_nan_passes_through() -> None:
    logits = table([0.0, math.nan, 1.0], [0.0, 2.0, 1.0])
    for function in (log_softmax, log_one_minus_softmax):
        assert function(logits).isnan().all(-1).tolist() == [True, False]


def test_ties_and_order_of_columns(rng: np.random.Generator) -> None:
    logits = torch.from_numpy(rng.normal(size=(20, 6)))
    logits[:, 3] = logits[:, 0] = 2.5
    order = torch.from_numpy(rng.permutation(6))
    for function in (log_softmax, log_one_minus_softmax):
        result = function(logits)
        torch.testing.assert_close(result[:, 3], result[:, 0], rtol=1e-15, atol=0)
        torch.testing.assert_close(function(logits[:, order]), result[:, order], rtol=1e-14, atol=0)
