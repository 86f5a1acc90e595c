"""Kolmogorov-Smirnov and Kuiper statistics, and the honesty of their p-values."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from calibrant.metrics import kolmogorov_smirnov_test, kuiper_test

TESTS = pytest.mark.parametrize("test", [kolmogorov_smirnov_test, kuiper_test])


def slow_statistics(probs: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Both by looking at every interval of distinct probabilities."""
    weights = weights / weights.sum()
    points = [-1.0, *sorted(set(probs.tolist()))]
    below = [math.fsum((weights * (labels - probs))[probs <= t]) for t in points]
    return max(map(abs, below)), max(abs(a - b) for a in below for b in below)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_statistics_by_looking_at_every_interval(
    rng: np.random.Generator, ties: bool, weighted: bool
) -> None:
    probs = rng.random(60)
    if ties:
        probs = np.round(probs, 1)
    labels = (rng.random(60) < probs**2).astype(int)
    weights = rng.choice([0.0, 0.5, 2.0], size=60) if weighted else np.ones(60)
    largest, spread = slow_statistics(probs, labels, weights)
    sigma = math.sqrt((weights**2 * probs * (1 - probs)).sum()) / weights.sum()
    given = weights if weighted else None
    for test, expected in ((kolmogorov_smirnov_test, largest), (kuiper_test, spread)):
        found = test(probs, labels, weights=given)
        assert found.statistic.item() == pytest.approx(expected, abs=1e-12)
        assert found.scaled.item() == pytest.approx(expected / sigma, rel=1e-12)


@pytest.mark.parametrize(
    ("test", "p_value", "weighted"),
    [
        (kolmogorov_smirnov_test, "simulation", False),
        (kolmogorov_smirnov_test, "asymptotic", True),
        (kuiper_test, "simulation", True),
        (kuiper_test, "asymptotic", False),
    ],
)
def test_p_values_of_calibrated_models_are_uniform(test: Any, p_value: str, weighted: bool) -> None:
    """|z| < 4 in every fifth over 200 models; those of the limit law may lie higher, but not lower."""
    found: list[float] = []
    for model in range(200):
        rng = np.random.default_rng(model)
        probs = rng.beta(4, 1.5, size=60 if p_value == "simulation" else 1500)
        weights = rng.choice([0.5, 1.0], size=len(probs)) if weighted else None
        labels = (rng.random(len(probs)) < probs).astype(int)
        options = {"p_value": p_value, "num_draws": 99, "seed": model, "weights": weights}
        found.append(test(probs, labels, **options).p_value.item())
    deviation = math.sqrt(200 * 0.2 * 0.8)
    if p_value == "simulation":
        assert np.abs(np.histogram(found, bins=5, range=(0, 1))[0] - 40).max() < 4 * deviation
    for level in (0.05, 0.2, 0.5):
        below = 200 * level
        count = sum(p <= level for p in found)
        assert count < below + 4 * math.sqrt(below * (1 - level))
        assert count > 0.6 * below - 4 * math.sqrt(below * (1 - level))


@TESTS
def test_wrong_models_are_found(rng: np.random.Generator, test: Any) -> None:
    """Probabilities that are too high by 0.1 give tiny p-values, simulated and in the limit."""
    true = rng.uniform(0.3, 0.8, size=1500)
    labels = (rng.random(1500) < true).astype(int)
    assert test(true + 0.1, labels).p_value.item() < 1e-6  # 1500 steps: the limit law
    assert test(true + 0.1, labels, p_value="simulation", num_draws=99).p_value.item() == 0.01
    assert test(true, labels).p_value.item() > 0.01


def test_kuiper_sees_errors_that_cancel(rng: np.random.Generator) -> None:
    """Too high below one half and too low above: the range is no less than the excursion."""
    probs = rng.random(3000)
    labels = (rng.random(3000) < 0.5).astype(int)
    ks, kuiper = kolmogorov_smirnov_test(probs, labels), kuiper_test(probs, labels)
    assert ks.statistic <= kuiper.statistic <= 2 * ks.statistic
    assert kuiper.p_value < 1e-6


@TESTS
def test_auto_chooses_by_the_number_of_steps(rng: np.random.Generator, test: Any) -> None:
    """Up to 999 distinct probabilities are simulated, also those of many rows; 1000 are not."""
    for distinct, chosen in ((999, "simulation"), (1000, "asymptotic")):
        probs = np.repeat(np.arange(1, distinct + 1) / (distinct + 1), 2)
        labels = (rng.random(len(probs)) < probs).astype(int)
        options = {"num_draws": 50}
        assert test(probs, labels, **options) == test(probs, labels, p_value=chosen, **options)


@TESTS
def test_edges(test: Any) -> None:
    one = test([0.25], [1])
    assert one.statistic.item() == 0.75
    assert one.p_value.item() == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / 9999))
    right = test([0.0, 1.0, 1.0], [0, 1, 1])
    assert (right.statistic, right.scaled, right.p_value) == (0, 0, 1)
    wrong = test([0.0, 1.0], [0, 0])
    assert (wrong.statistic, wrong.scaled, wrong.p_value) == (0.5, math.inf, 0)
    same = test([0.5] * 10, [1] * 10)
    assert same.statistic.item() == pytest.approx(0.5, abs=1e-15)
    assert test([0.5, 0.9], [1, 0], weights=[1, 0]) == test([0.5], [1])
    rounded = test(torch.tensor([[1.0004, 0.0], [0.25, 0.75]]), torch.tensor([0, 1]))  # within the tolerance
    assert 0 <= rounded.p_value <= 1


@TESTS
def test_a_column_of_certainties_stands_beside_the_others(rng: np.random.Generator, test: Any) -> None:
    """Of several labels each column has its own result, also after one that is certain and right."""
    labels = (rng.random((40, 3)) < 0.5).astype(int)
    probs = rng.random((40, 3))
    probs[:, 1] = labels[:, 1]
    found = test(probs, labels)
    for k in range(3):
        alone = test(probs[:, k], labels[:, k])
        assert {name: value[k].item() for name, value in vars(found).items()} == vars(alone)
    assert (found.statistic[1], found.p_value[1]) == (0, 1)
