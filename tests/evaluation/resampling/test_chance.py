"""The null distribution of any metric, and the paired test."""

import math

import numpy as np
import pytest
import torch

from calibrant import metrics
from calibrant.evaluation import null_distribution, paired_test


def test_one_bin_has_a_closed_form(rng) -> None:
    """With one bin the ECE of an event is the absolute mean residual: half-normal; |z| < 4."""
    probs = rng.beta(4, 1.5, size=800)
    null = null_distribution(
        lambda p, y: metrics.expected_calibration_error(p, y, num_bins=1), probs, num_draws=1000
    )
    spread = math.sqrt((probs * (1 - probs)).sum()) / 800
    error = spread * math.sqrt((1 - 2 / math.pi) / 1000)
    assert abs(null.mean - spread * math.sqrt(2 / math.pi)) < 4 * error
    assert null.quantile(0.95) == pytest.approx(1.959964 * spread, rel=0.1)  # a quantile of 1000 draws


@pytest.mark.parametrize("multilabel", [False, True])
def test_labels_are_drawn_from_the_probabilities(rng, multilabel) -> None:
    """Over 2000 draws every class of every row occurs as often as stated; |z| < 4.5 for 24 entries."""
    probs = rng.dirichlet([1, 1, 1, 0.2], size=6)
    probs[0] = [0, 1, 0, 0]
    counts = np.zeros((6, 4))

    def count(_: torch.Tensor, labels: torch.Tensor) -> float:
        counts[:] += labels.numpy() if multilabel else np.eye(4)[labels.numpy()]
        return 0.0

    null_distribution(count, probs, num_draws=2000, multilabel=multilabel)
    deviation = np.sqrt(2000 * probs * (1 - probs))
    assert (np.abs(counts - 2000 * probs) <= 4.5 * deviation + 1e-9).all()


def squared(probs: torch.Tensor, labels: torch.Tensor) -> float:
    """The Brier score without its checks, which are most of its time."""
    return float(((probs - labels) ** 2).mean())


def test_p_values_of_calibrated_models_are_uniform() -> None:
    """Of a metric that `evaluate` does not know, over 100 models: |z| < 4 in every fifth."""
    found: list[float] = []
    for model in range(100):
        rng = np.random.default_rng(model)
        probs = rng.random(60)
        labels = (rng.random(60) < probs).astype(int)
        null = null_distribution(squared, probs, num_draws=99, seed=model)
        found.append(null.p_value(metrics.brier_score(probs, labels)))
    counts = np.histogram(found, bins=5, range=(0, 1))[0]
    assert np.abs(counts - 20).max() < 4 * math.sqrt(100 * 0.2 * 0.8)


def test_weights_reach_the_metric_and_the_seed_decides(rng) -> None:
    probs, weights = rng.random(5), [0.0, 0.0, 1.0, 0.0, 0.0]
    null = null_distribution(metrics.brier_score, probs, weights=weights, num_draws=40)
    assert set(np.round(null.values, 12)) <= set(np.round([probs[2] ** 2, (1 - probs[2]) ** 2], 12))
    again, other = (
        null_distribution(metrics.brier_score, probs, num_draws=40, seed=seed).values for seed in (0, 1)
    )
    assert np.array_equal(again, null_distribution(metrics.brier_score, probs, num_draws=40).values)
    assert not np.array_equal(again, other)


def models(seed: int, scale: float, num_samples: int = 150) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two noisy views of the same truth, the first stated times a factor."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(size=num_samples)
    labels = (rng.random(num_samples) < 1 / (1 + np.exp(-log_odds))).astype(int)
    one, other = (log_odds + 0.7 * rng.normal(size=num_samples) for _ in range(2))
    return 1 / (1 + np.exp(-scale * one)), 1 / (1 + np.exp(-other)), labels


def test_exchangeable_models_get_uniform_p_values_and_covering_intervals() -> None:
    """Over 100 pairs: |z| < 4 for p-values below 0.1 and 0.5, and for intervals that hold zero."""
    found = [paired_test(squared, *models(seed, 1.0), num_resamples=99, seed=seed) for seed in range(100)]
    for level in (0.1, 0.5):
        count = sum(each.p_value <= level for each in found)
        assert abs(count - 100 * level) < 4 * math.sqrt(100 * level * (1 - level))
    covered = sum(each.low <= 0 <= each.high for each in found)
    assert abs(covered - 100 * 0.94) < 4 * math.sqrt(100 * 0.94 * 0.06)  # 99 resamples: a little short


def test_unlike_models_are_told_apart() -> None:
    """A model stated four times too sharply is worse; exchanging the two changes the sign only."""
    sharp, honest, labels = models(0, 4.0, 400)
    found = paired_test(metrics.smooth_calibration_error, sharp, honest, labels, num_resamples=199)
    assert found.low > 0
    assert found.p_value == 0.005
    assert found.difference == found.first - found.second
    assert found.first == metrics.smooth_calibration_error(sharp, labels).item()
    back = paired_test(metrics.smooth_calibration_error, honest, sharp, labels, num_resamples=199)
    assert (back.difference, back.p_value) == (-found.difference, found.p_value)
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low), abs=1e-12)


def test_equal_models_and_classes(rng) -> None:
    """A model against itself: difference zero, p-value one; tables of classes and weights are taken."""
    probs = rng.dirichlet([1, 1, 1], size=40)
    labels = rng.integers(0, 3, size=40)
    options = {"num_resamples": 20, "weights": np.eye(40)[0] + np.eye(40)[1]}
    same = paired_test(metrics.accuracy, probs, probs, labels, **options)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    one = paired_test(metrics.brier_score, [0.5], [0.5], [1], num_resamples=5)
    assert one.p_value == 1
