"""The loss of events: that of two classes, finite where it saturates, with the right derivatives."""

import numpy as np
import pytest
import torch

from calibrant.calibrators.fitting.objectives import Objective, smooth_objective
from calibrant.calibrators.fitting.samples import Samples

POINTS = [(1.0, 0.0), (2.0, 0.0), (0.3, 4.0), (1.7, -0.9), (0.05, 20.0), (50.0, 1.0)]


def samples(spread: float, *, weighted: bool = False) -> Samples:
    """Log-odds of events, among them zero, some of which happen."""
    generator = torch.Generator().manual_seed(3)
    scores = spread * torch.randn(300, generator=generator, dtype=torch.float64)
    scores[::50] = 0.0
    labels = (torch.rand(300, generator=generator) < torch.sigmoid(scores / 2)).long()
    weights = torch.rand(300, generator=generator, dtype=torch.float64) if weighted else None
    return Samples(scores, labels, weights)


@pytest.mark.parametrize("objective", ["nll", "brier"])
@pytest.mark.parametrize(("temperature", "gamma"), POINTS)
def test_same_as_two_classes(objective: Objective, temperature: float, gamma: float) -> None:
    """Log-odds of an event are two logits; of these, the Brier score sums over both outcomes."""
    given = samples(3.0, weighted=True)
    logits = torch.stack([torch.zeros_like(given.scores), given.scores], dim=1)
    mine = smooth_objective(given, objective, temperature, gamma)
    table = smooth_objective(Samples(logits, given.labels, given.weights), objective, temperature, gamma)
    share = 0.5 if objective == "brier" else 1.0
    assert mine.value == pytest.approx(share * table.value, rel=1e-12)
    np.testing.assert_allclose(mine.gradient, share * table.gradient, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(mine.hessian, share * table.hessian, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("objective", ["nll", "brier"])
def test_saturated_log_odds(objective: Objective) -> None:
    """Of log-odds up to a thousand and more, every number is finite, and a wrong one costs its log-odds."""
    scores = torch.tensor([800.0, -800.0, 3000.0, 0.0, 1e-9], dtype=torch.float64)
    for temperature, gamma in POINTS:
        found = smooth_objective(
            Samples(scores, torch.tensor([1, 0, 1, 0, 1]), None), objective, temperature, gamma
        )
        assert np.isfinite([found.value, *found.gradient, *found.hessian.ravel()]).all()
    wrong = smooth_objective(Samples(scores[:1], torch.tensor([0]), None), objective, 1.0, 0.0)
    assert wrong.value == pytest.approx(800 if objective == "nll" else 1, rel=1e-15)
