"""The public focal calibration map: shapes, types, what is refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import theory

Golden = Callable[[str], Any]

MAPS = [theory.focal_calibration_map, theory.inverse_focal_calibration_map]
LOGIT_MAPS = [theory.focal_calibration_map_logits, theory.inverse_focal_calibration_map_logits]


def test_probabilities_are_the_references(golden: Golden) -> None:
    """Map and inverse agree with the references on probabilities, to 1e-12 of them."""
    for case in golden("focal_map.json")["inverse"]:
        gamma = case["gamma"]
        q = theory.inverse_focal_calibration_map([case["p"]], gamma=gamma)
        torch.testing.assert_close(q[0], torch.tensor(case["q"], dtype=torch.float64), rtol=1e-12, atol=0)
        p = theory.focal_calibration_map(q, gamma=gamma)
        torch.testing.assert_close(p[0], torch.tensor(case["p"], dtype=torch.float64), rtol=1e-12, atol=0)


@pytest.mark.parametrize("function", MAPS)
@pytest.mark.parametrize("gamma", [-0.5, 0.0, 2.0])
def test_an_event_is_two_classes(function: Callable[..., torch.Tensor], gamma: float) -> None:
    event = np.array([0.0, 1e-12, 0.3, 0.5, 0.9, 1.0])
    result = function(event, gamma=gamma)
    pair = function(np.stack([1 - event, event], axis=1), gamma=gamma)
    torch.testing.assert_close(result, pair[:, 1], rtol=1e-12, atol=0)
    assert result[[0, 3, 5]].tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(("on_probs", "on_logits"), list(zip(MAPS, LOGIT_MAPS, strict=True)))
@pytest.mark.parametrize("shape", [(7,), (7, 3)])
def test_logits_and_probabilities_agree(
    on_probs: Callable[..., torch.Tensor],
    on_logits: Callable[..., torch.Tensor],
    shape: tuple[int, ...],
    rng: np.random.Generator,
) -> None:
    logits = torch.from_numpy(rng.normal(size=shape) * 3)
    link = torch.sigmoid if len(shape) == 1 else lambda z: z.softmax(-1)
    through_logits = link(on_logits(logits, gamma=1.5))
    torch.testing.assert_close(on_probs(link(logits), gamma=1.5), through_logits, rtol=1e-12, atol=0)


@pytest.mark.parametrize("function", [*MAPS, *LOGIT_MAPS])
def test_type_shape_and_graph(function: Callable[..., torch.Tensor]) -> None:
    """Shape and dtype are the caller's, integers become float64, and nothing hangs on a graph."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        row = torch.tensor([[0.5, 0.25, 0.25]], dtype=dtype, requires_grad=True)
        result = function(row, gamma=1)
        assert result.shape == (1, 3)
        assert result.dtype == dtype
        assert not result.requires_grad
    assert function([[0, 1]], gamma=1.0).dtype == torch.float64
    assert function(np.array([[0.25, 0.75]], dtype=np.float32), gamma=1.0).dtype == torch.float32


@pytest.mark.parametrize("function", MAPS)
def test_corners_and_rounded_rows(function: Callable[..., torch.Tensor]) -> None:
    """Certain rows stay certain, impossible classes impossible, and rounded rows come out summing to one."""
    result = function([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.333, 0.333, 0.333]], gamma=2.0)
    torch.testing.assert_close(result[0].tolist(), [1.0, 0.0, 0.0])
    torch.testing.assert_close(result[1].tolist(), [0.5, 0.5, 0.0])
    torch.testing.assert_close(result[2].tolist(), [1 / 3] * 3)


@pytest.mark.parametrize("function", LOGIT_MAPS)
def test_impossible_classes(function: Callable[..., torch.Tensor]) -> None:
    assert function([[0.0, -math.inf]], gamma=2.0).tolist() == [[0.0, -math.inf]]
    assert function([-math.inf, math.inf], gamma=2.0).tolist() == [-math.inf, math.inf]
