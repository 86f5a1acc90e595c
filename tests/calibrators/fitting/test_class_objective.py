"""Compiled passes over rows of many classes: the same loss and derivatives as by tables."""

import numpy as np
import pytest
import torch

from calibrant.calibrators.fitting.objectives import (
    Objective,
    expansion_by_tables,
    of_six,
    smooth_objective,
)
from calibrant.calibrators.fitting.samples import Samples


@pytest.mark.parametrize("objective", ["nll", "brier"])
@pytest.mark.parametrize("num_classes", [3, 32])
@pytest.mark.parametrize("gamma", [-0.999, -0.4, 0.0, 1.5, 50.0])
@pytest.mark.parametrize("temperature", [0.02, 0.9, 60.0])
def test_passes_and_tables_agree(
    gamma: float, temperature: float, num_classes: int, objective: Objective
) -> None:
    """With large and small probabilities, of right rows and wrong ones, flat rows and certain ones."""
    generator = torch.Generator().manual_seed(1)
    spreads = torch.tensor([0.0, 0.5, 3.0, 40.0], dtype=torch.float64).repeat(10)[:, None]
    logits = spreads * torch.randn(40, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, num_classes, (40,), generator=generator)
    labels[::3] = logits[::3].argmax(dim=1)
    weights = torch.rand(40, generator=generator, dtype=torch.float64)
    samples = Samples(logits, labels, weights)
    passes = smooth_objective(samples, objective, temperature, gamma)
    (block,) = samples.blocks()
    tables = of_six(expansion_by_tables(block, objective, temperature, gamma).numpy())
    assert passes.value == pytest.approx(tables.value, rel=1e-12)
    for one, other in ((passes.gradient, tables.gradient), (passes.hessian, tables.hessian)):
        atol = max(1e-11 * np.abs(other).max(), 1e-14)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=atol)
