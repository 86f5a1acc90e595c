"""Compiled passes over rows of many classes: the same loss and derivatives as by tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibrant.calibrators.fitting import objectives
from calibrant.calibrators.fitting.objectives import FEWEST_CLASSES, smooth_objective
from calibrant.calibrators.fitting.samples import Samples


@pytest.mark.parametrize("gamma", [-0.999, -0.4, 0.0, 1.5, 50.0])
@pytest.mark.parametrize("temperature", [0.02, 0.9, 60.0])
def test_passes_and_tables_agree(gamma: float, temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With large and small probabilities, of right rows and wrong ones, flat rows and certain ones."""
    generator = torch.Generator().manual_seed(1)
    spreads = torch.tensor([0.0, 0.5, 3.0, 40.0], dtype=torch.float64).repeat(10)[:, None]
    logits = spreads * torch.randn(40, FEWEST_CLASSES, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, FEWEST_CLASSES, (40,), generator=generator)
    labels[::3] = logits[::3].argmax(dim=1)
    weights = torch.rand(40, generator=generator, dtype=torch.float64)
    samples = Samples(logits, labels, weights)
    passes = smooth_objective(samples, "nll", temperature, gamma)
    monkeypatch.setattr(objectives, "FEWEST_CLASSES", FEWEST_CLASSES + 1)
    tables = smooth_objective(samples, "nll", temperature, gamma)
    assert passes.value == pytest.approx(tables.value, rel=1e-12)
    for one, other in ((passes.gradient, tables.gradient), (passes.hessian, tables.hessian)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11 * np.abs(other).max())
