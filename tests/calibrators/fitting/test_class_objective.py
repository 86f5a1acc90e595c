"""Compiled passes over rows of classes, and over events: the same loss and derivatives as by tables."""

import numpy as np
import pytest
import torch

from calibrant.calibrators.fitting.objectives import Objective, expansion_by_tables, of_six, smooth_objective
from calibrant.calibrators.fitting.samples import Samples

POINTS = [
    (temperature, gamma) for temperature in (0.02, 0.9, 60.0) for gamma in (-0.999, -0.4, 0.0, 1.5, 50.0)
]


@pytest.mark.parametrize("objective", ["nll", "brier"])
@pytest.mark.parametrize("num_classes", [2, 3, 32])
@pytest.mark.parametrize(("temperature", "gamma"), POINTS)
def test_passes_and_tables_agree(
    temperature: float, gamma: float, num_classes: int, objective: Objective
) -> None:
    """With large and small probabilities, of right rows and wrong ones, flat rows and certain ones.

    The difference of two logits is an event, of which the Brier score does not sum over both outcomes.
    """
    generator = torch.Generator().manual_seed(1)
    spreads = torch.tensor([0.0, 0.5, 3.0, 40.0], dtype=torch.float64).repeat(10)[:, None]
    logits = spreads * torch.randn(40, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, num_classes, (40,), generator=generator)
    labels[::3] = logits[::3].argmax(dim=1)
    weights = torch.rand(40, generator=generator, dtype=torch.float64)
    samples = Samples(logits, labels, weights)
    (block,) = samples.blocks()
    tables = expansion_by_tables(block, objective, temperature, gamma)
    compared = [(samples, of_six(tables.numpy()))]
    if num_classes == 2:
        share = 0.5 if objective == "brier" else 1.0
        compared.append(
            (Samples(logits[:, 1] - logits[:, 0], labels, weights), of_six(share * tables.numpy()))
        )
    for given, expected in compared:
        passes = smooth_objective(given, objective, temperature, gamma)
        assert passes.value == pytest.approx(expected.value, rel=1e-12)
        for one, other in ((passes.gradient, expected.gradient), (passes.hessian, expected.hessian)):
            atol = max(1e-11 * np.abs(other).max(), 1e-14)
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("objective", ["nll", "brier"])
def test_saturated_log_odds(objective: Objective) -> None:
    """Of log-odds up to a thousand and more, every number is finite, and a wrong one costs its log-odds."""
    scores = torch.tensor([800.0, -800.0, 3000.0, 0.0, 1e-9], dtype=torch.float64)
    for point in POINTS:
        found = smooth_objective(Samples(scores, torch.tensor([1, 0, 1, 0, 1]), None), objective, *point)
        assert np.isfinite([found.value, *found.gradient, *found.hessian.ravel()]).all()
    wrong = smooth_objective(Samples(scores[:1], torch.tensor([0]), None), objective, 1.0, 0.0)
    assert wrong.value == pytest.approx(800 if objective == "nll" else 1, rel=1e-15)
