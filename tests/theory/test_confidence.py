"""When the focal map raises the top probability: the thresholds, and shares of samples."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize_scalar

from calibrant import load_predictions, losses, theory

Golden = Callable[[str], Any]
GAMMAS = [-0.99, -0.9, -0.5, -0.01, 1e-6, 0.3, 1.0, 2.0, 5.0, 50.0]


def factor(p: float, gamma: float) -> float:
    return (1 - p) ** gamma - gamma * p * (1 - p) ** (gamma - 1) * np.log(p)


def top_change(q: np.ndarray[Any, Any], gamma: float) -> np.ndarray[Any, Any]:
    """By how much the top probability of each row rises."""
    mapped = theory.focal_calibration_map(q, gamma=gamma).numpy()
    return mapped.max(1) - q.max(1)


def test_thresholds_are_the_published_ones(golden: Golden) -> None:
    """The roots of g = 1: 0.3679, 0.2976, 0.2526, 0.1968, 0.1629 for gamma 1, 2, 3, 5, 7, and back."""
    for case in golden("theory.json")["p0_where_g_eq_1"]:
        found = theory.confidence_threshold(case["gamma"])
        assert found.above == pytest.approx(case["p0"], rel=1e-12)
        assert losses.optimal_gamma(found.above) == pytest.approx(case["gamma"], rel=1e-12)
    for gamma, peak in {1: 0.1353, 2: 0.1041, 3: 0.0855, 5: 0.0639}.items():
        assert theory.confidence_threshold(gamma).below == pytest.approx(peak, abs=5e-5)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_thresholds_by_other_means(gamma: float) -> None:
    found = theory.confidence_threshold(gamma)
    sign = np.sign(gamma)
    peak = minimize_scalar(
        lambda p: -sign * factor(p, gamma), bounds=(1e-4, 0.95), method="bounded", options={"xatol": 1e-10}
    ).x
    if abs(gamma) > 1e-3:  # below, the plain formula's rounding hides the extremum
        assert found.below == pytest.approx(peak, abs=1e-6)
        root = brentq(lambda p: factor(p, gamma) - 1, found.below, 1 - 1e-9, xtol=1e-15)
        assert found.above == pytest.approx(root, rel=1e-10)
    assert 0 < found.below < found.above < 1


def test_limits_at_zero() -> None:
    """At gamma = 0 the limits: one half, and the root of -log p = 2 (1 - p)."""
    found = theory.confidence_threshold(0)
    assert found.above == 0.5
    assert -np.log(found.below) == pytest.approx(2 * (1 - found.below), rel=1e-13)
    near = theory.confidence_threshold(1e-9)
    assert near.above == pytest.approx(0.5, abs=1e-8)


@pytest.mark.parametrize("gamma", [-0.9, -0.5, 0.3, 1.0, 3.0, 20.0])
def test_what_is_certain_holds(gamma: float, rng: np.random.Generator) -> None:
    threshold = theory.confidence_threshold(gamma)
    sign = 1 if gamma > 0 else -1
    seen = 0
    for num_classes in (2, 3, 5, 20, 300):
        for shape in (0.1, 1.0, 20.0):
            q = rng.dirichlet(np.full(num_classes, shape), size=400)
            change = sign * top_change(q, gamma)
            high = (q.max(1) >= threshold.above) & (q.max(1) < 1 - 1e-6)
            low = q.max(1) <= threshold.below
            assert (change[high] > 0).all()
            assert (change[low] <= 1e-15).all()
            seen += int(high.sum()) + int(low.sum())
    assert seen > 1000


def test_counter_examples_to_the_published_proposition() -> None:
    """Four classes: .3237 falls to .32363; a hundred: .2 falls to .18680; the minimiser of .2 is .2131."""
    four = np.array([[0.0304, 0.3233, 0.3237, 0.3226]])
    assert theory.focal_calibration_map(four, gamma=0.3).max().item() == pytest.approx(0.32363, abs=5e-6)
    hundred = np.array([[0.2] + [0.8 / 99] * 99])
    assert theory.focal_calibration_map(hundred, gamma=1).max().item() == pytest.approx(0.18680, abs=5e-6)
    inverse = theory.inverse_focal_calibration_map(hundred, gamma=1)
    assert inverse.max().item() == pytest.approx(0.2131, abs=5e-5)


def test_change_counts_every_row() -> None:
    rows = torch.tensor(
        [[0.7, 0.1, 0.1, 0.1], [0.0304, 0.3233, 0.3237, 0.3226], [0.25] * 4, [1.0, 0.0, 0.0, 0.0]]
    )
    found = theory.confidence_change(rows.double().log(), gamma=0.3)
    assert (found.raised, found.lowered, found.num_samples) == (0.25, 0.25, 4)
    assert found.largest_fall == pytest.approx(0.3237 - 0.32363, abs=2e-5)
    sure = theory.confidence_change(torch.tensor([[60.0, 0, 0]], dtype=torch.float64), gamma=2)
    assert sure.raised == 1
    events = theory.confidence_change([3.0, -0.1, 0.0], gamma=2)
    assert (events.raised, events.lowered) == (pytest.approx(2 / 3), 0)
    assert theory.confidence_change([3.0, -0.1, 0.0], gamma=0).raised == 0


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "gamma", "share"),
    [
        ("wideresnet-16-4-cifar-100", 1, 0.061),
        ("wideresnet-16-4-cifar-100", 3, 0.021),
        ("20news_test", 1, 0.004),
    ],
)
def test_shares_of_real_files(data_folder: Path, name: str, gamma: float, share: float) -> None:
    """6.1 % and 2.1 % of the samples of a CIFAR-100 network are lowered."""
    (path,) = data_folder.rglob(f"*{name}*.npz")
    predictions = load_predictions(path)
    found = theory.confidence_change(predictions.scores, gamma=gamma)
    assert found.lowered == pytest.approx(share, abs=5e-4)
