"""The smooth calibration error and the post-processing gap as the caller sees them."""

import numpy as np
import pytest
import torch

from calibrant.metrics import (
    expected_calibration_error,
    post_processing_gap,
    smooth_calibration_error,
    smooth_calibration_witness,
)


def table(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities (80, 4) of an over-confident model and its labels."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(80, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
    return torch.softmax(2 * logits, 1), labels


def test_between_the_binned_error_and_nothing() -> None:
    """Smoothing sees no more than exact bins: with one distinct score per bin the ECE is an upper bound."""
    rng = np.random.default_rng(0)
    probs = rng.integers(0, 15, 500) / 15 + 1 / 30  # the middles of fifteen bins
    labels = rng.random(500) < np.clip(2 * probs - 0.4, 0, 1)
    smooth = smooth_calibration_error(probs, labels).item()
    assert abs((labels - probs).mean()) <= smooth
    assert smooth < expected_calibration_error(probs, labels) - 0.01
    assert smooth**2 <= post_processing_gap(probs, labels) <= 2 * smooth


def test_witness_certifies_the_value() -> None:
    """The witness attains the error as a function of the scores, is 1-Lipschitz into [-1, 1], not beaten."""
    probs, labels = table()
    weights = 1.0 + torch.arange(80) % 3
    witness = smooth_calibration_witness(probs, labels, weights=weights)
    confidence, prediction = probs.max(dim=1)
    residual = (prediction == labels).double() - confidence
    attained = (weights * residual * witness(confidence)).sum() / weights.sum()
    assert attained.item() == pytest.approx(witness.value, abs=1e-12)
    assert witness.value == smooth_calibration_error(probs, labels, weights=weights).item()
    assert witness.upper_bound == pytest.approx(witness.value, abs=1e-12)
    assert (witness.residuals @ witness.values).item() == pytest.approx(witness.value, abs=1e-12)
    grid = torch.linspace(0, 1, 1001, dtype=torch.float64)
    values = witness(grid)
    assert values.abs().max() <= 1
    assert values.diff().abs().max() <= 1e-3 + 1e-12
    assert witness(torch.zeros(2, 3)).shape == (2, 3)


def test_witness_shows_the_direction() -> None:
    assert smooth_calibration_witness([0.9, 0.9], [0, 1]).values.item() == -1
    assert smooth_calibration_witness([0.1, 0.1], [0, 1]).values.item() == 1


def test_witness_is_of_one_event() -> None:
    probs, _ = table()
    with pytest.raises(ValueError, match=r"pass one column: `probs\[:, k\], labels\[:, k\]`"):
        smooth_calibration_witness(probs, torch.ones_like(probs))
