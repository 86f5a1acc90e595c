"""The AUROC and its standard error."""

import numpy as np
import pytest
import torch

from calibrant import Predictions, evaluate, metrics
from calibrant.evaluation.resampling.events import auroc_influence, standard_error


def delong_variance(scores: np.ndarray, positive: np.ndarray) -> tuple[float, float]:
    """Area and variance written down from the paper, pair by pair."""
    high, low = scores[positive], scores[~positive]
    wins = (high[:, None] > low[None, :]) + 0.5 * (high[:, None] == low[None, :])
    return wins.mean(), wins.mean(axis=1).var(ddof=1) / len(high) + wins.mean(axis=0).var(ddof=1) / len(low)


@pytest.mark.parametrize("ties", [False, True])
def test_area_and_standard_error_are_delongs(rng, ties) -> None:
    scores = np.round(rng.normal(size=90), 0 if ties else 12)
    positive = rng.random(90) < 0.3
    area, influence = auroc_influence(scores, positive, None) or (0, np.zeros(0))
    expected, variance = delong_variance(scores, positive)
    assert area == pytest.approx(expected, abs=1e-14)
    assert standard_error(influence, None) == pytest.approx(np.sqrt(variance), abs=1e-14)


def test_the_area_is_the_metric(rng) -> None:
    scores, positive = rng.random(80), rng.random(80) < 0.4
    weights = rng.choice([0.0, 0.5, 2.0], size=80)
    area = (auroc_influence(scores, positive, weights) or (0,))[0]
    expected = metrics.auroc(scores, torch.from_numpy(positive), weights=weights).item()
    assert area == pytest.approx(expected, abs=1e-12)
    # Without positives, without negatives, or where one side has weight zero.
    scores = np.array([0.1, 0.2, 0.3])
    assert auroc_influence(scores, np.zeros(3, bool), None) is None
    assert auroc_influence(scores, np.ones(3, bool), None) is None
    assert auroc_influence(scores, np.array([True, False, False]), np.array([0.0, 1.0, 1.0])) is None


def test_the_paired_standard_error_is_the_spread_of_the_difference() -> None:
    """Over 300 samples of two related scores, the difference spreads as the influences say; |z| < 4."""
    differences, errors = [], []
    for sample in range(300):
        rng = np.random.default_rng(sample)
        truth = rng.normal(size=200)
        positive = rng.random(200) < 1 / (1 + np.exp(-2 * truth))
        found = [
            auroc_influence(truth + noise * rng.normal(size=200), positive, None) for noise in (0.5, 0.8)
        ]
        (first, one), (second, other) = (each or (0, np.zeros(0)) for each in found)
        differences.append(first - second)
        errors.append(standard_error(one - other, None))
    ratio = np.std(differences) / np.mean(errors)
    assert abs(ratio - 1) < 4 / np.sqrt(2 * 300)


def test_the_mean_area_of_labels_that_are_alike_is_as_certain_as_one(made) -> None:
    one = made("binary", 200)
    three = Predictions(logits=one.scores[:, None].repeat(1, 3), labels=one.labels[:, None].repeat(1, 3))
    found = [evaluate(each, calibrators=[], bootstrap=20, null_draws=20).arms[0] for each in (one, three)]
    first, second = ((e.value, e.low, e.high) for e in (arm.metrics["auroc"] for arm in found))
    assert None not in first
    assert first == pytest.approx(second, abs=1e-12)
