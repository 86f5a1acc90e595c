"""Calibration and refinement by the best temperature."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from calibrant.metrics import brier_score, negative_log_likelihood, temperature_decomposition


def planted(rng: np.random.Generator, temperature: float, num_samples: int = 4000) -> tuple:
    """Classes drawn from a softmax, stated at another temperature."""
    logits = 2 * rng.normal(size=(num_samples, 4))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return softmax(logits * temperature, axis=1), labels, logits


@pytest.mark.parametrize("weighted", [False, True])
def test_the_temperature_is_the_most_likely(rng: np.random.Generator, weighted: bool) -> None:
    probs, labels, logits = planted(rng, 2.5, 500)
    weights = rng.choice([0.0, 1.0, 3.0], size=500) if weighted else np.ones(500)

    def loss(log_temperature: float) -> float:
        rows = log_softmax(2.5 * logits / math.exp(log_temperature), axis=1)[np.arange(500), labels]
        return -float(weights @ rows) / weights.sum()

    best = minimize_scalar(loss, bounds=(-4, 4), method="bounded", options={"xatol": 1e-10})
    found = temperature_decomposition(probs, labels, weights=weights if weighted else None)
    assert found.temperature == pytest.approx(math.exp(best.x), rel=1e-6)  # root of rounding, of theirs
    assert found.refinement.item() == pytest.approx(best.fun, abs=1e-12)
    assert (found.calibration + found.refinement).item() == pytest.approx(found.score.item(), abs=1e-15)


def test_a_planted_temperature_is_found(rng: np.random.Generator) -> None:
    """Within four standard errors of 0.03; the refinement is the true model's score, for both scores."""
    probs, labels, logits = planted(rng, 2.0)
    for score, function in (("nll", negative_log_likelihood), ("brier", brier_score)):
        found = temperature_decomposition(probs, labels, score=score)
        assert found.temperature == pytest.approx(2.0, abs=0.12)
        assert found.score.item() == pytest.approx(function(probs, labels).item(), abs=1e-14)
        assert found.refinement.item() == pytest.approx(function(softmax(logits, 1), labels).item(), abs=1e-3)
        assert found.calibration.item() > 0.02


def test_events_and_labels(rng: np.random.Generator) -> None:
    p = rng.random(300)
    y = (rng.random(300) < p**2).astype(int)
    event = temperature_decomposition(p, y)
    classes = temperature_decomposition(np.stack([1 - p, p], axis=1), y)
    labels = temperature_decomposition(np.stack([p, p], axis=1), np.stack([y, y], axis=1))
    for other in (classes, labels):
        assert other.temperature == pytest.approx(event.temperature, rel=1e-9)
        assert other.refinement.item() == pytest.approx(event.refinement.item(), abs=1e-12)


def test_edges() -> None:
    right = temperature_decomposition([[0.6, 0.4]], [0])
    assert right.temperature == pytest.approx(1e-4)
    assert right.refinement.item() < 1e-10
    wrong = temperature_decomposition([[0.6, 0.4]], [1])
    assert wrong.temperature == pytest.approx(1e4)
    uniform = temperature_decomposition([[0.5, 0.5]] * 3, [0, 1, 1])
    assert uniform.calibration.item() == pytest.approx(0, abs=1e-15)
    certain = temperature_decomposition([[1.0, 0.0], [1.0, 0.0]], [0, 1])
    assert certain.score.item() == math.inf
    assert certain.calibration.item() == math.inf
    assert math.isfinite(certain.refinement.item())
