"""Averaged two bins, decision loss and variational error: definitions, promises, planted errors."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from calibrant.calibrators import out_of_fold_probs
from calibrant.metrics import (
    averaged_two_bin_error,
    calibration_decision_loss,
    expected_calibration_error,
    variational_calibration_error,
)

SEEDS = st.integers(0, 2**32 - 1)


def some_event(seed: int, most: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, some of them equal, outcomes and weights."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, most))
    probs = rng.uniform(size=count).round(int(rng.integers(1, 4)))
    return probs, rng.integers(0, 2, count), rng.integers(1, 4, count).astype(float)


@given(seed=SEEDS)
def test_two_bins_are_averaged_over_all_boundaries(seed: int) -> None:
    """The sorted sums equal the definition, in which every boundary asks every sample for its side."""
    probs, labels, weights = some_event(seed)
    edges = np.unique([0.0, *probs, 1.0])
    integral = 0.0
    for low, high in itertools.pairwise(edges):
        left = probs < (low + high) / 2
        sides = [float((weights * (probs - labels))[side].sum()) for side in (left, ~left)]
        integral += (high - low) * sum(side**2 for side in sides)
    found = averaged_two_bin_error(probs, labels, weights=weights).item()
    assert found == pytest.approx(integral / weights.sum() ** 2, abs=1e-12)


def expectation(error: object, stated: tuple[float, ...], true: tuple[float, ...]) -> float:
    """Of an error of stated probabilities, over all outcomes of independent events."""
    outcomes = itertools.product((0, 1), repeat=len(true))
    chance = [math.prod(q if y else 1 - q for q, y in zip(true, each, strict=True)) for each in outcomes]
    values = [float(error(stated, each)) for each in itertools.product((0, 1), repeat=len(true))]  # type: ignore[operator]
    return math.fsum(c * v for c, v in zip(chance, values, strict=True))


def calibrated(stated: tuple[float, ...], true: tuple[float, ...]) -> bool:
    """Whether equal statements are right on average."""
    groups = itertools.groupby(sorted(zip(stated, true, strict=True)), key=lambda pair: pair[0])
    return all(abs(sum(q - said for said, q in pairs)) < 1e-9 for said, pairs in groups)


def test_the_truth_has_the_least_expected_two_bin_error() -> None:
    """On a grid only calibrated statements, the truth and its means, reach it; the ECE prefers a lie."""
    true, grid = (0.25, 0.5, 0.875), np.arange(0, 9) / 8
    best = expectation(averaged_two_bin_error, true, true)
    assert best == pytest.approx(sum(q * (1 - q) for q in true) / 9, abs=1e-12)
    for stated in itertools.product(grid, repeat=3):
        above = expectation(averaged_two_bin_error, stated, true) - best
        assert abs(above) < 1e-12 if calibrated(stated, true) else above > 1e-4
    lie = (0.5, 0.5, 0.5)
    assert not calibrated(lie, true)
    assert expectation(expected_calibration_error, lie, true) < expectation(
        expected_calibration_error, true, true
    )


def largest_loss(stated: np.ndarray, rates: np.ndarray, shares: np.ndarray) -> float:
    """The linear programme over all proper scores between 0 and 1: mixtures of V-shaped ones."""
    at = np.unique([0.0, 1.0, *stated, *rates, *np.linspace(0, 1, 41)])
    between = (np.minimum(stated, rates) <= at[:, None]) & (at[:, None] <= np.maximum(stated, rates))
    regret = (np.abs(rates - at[:, None]) * between) @ shares
    # S(q, 1) rises by the integral of 1 - t over the mixture, S(q, 0) falls by that of t: at most 1 each.
    return -linprog(-regret, A_ub=[1 - at, at], b_ub=[1, 1]).fun


@given(seed=SEEDS)
def test_decision_loss_is_the_largest_of_all_bounded_decisions(seed: int) -> None:
    """It equals a linear programme, lies between squared and twice the ECE, and above every V-shaped loss."""
    probs, labels, _ = some_event(seed)
    found = calibration_decision_loss(probs, labels, num_bins=5).item()
    bins = np.clip(np.ceil(probs * 5 - 1e-9) - 1, 0, 4).astype(int)
    counts = np.bincount(bins, minlength=5)
    full = counts > 0
    stated, rates = ((np.bincount(bins, x, 5)[full] / counts[full]) for x in (probs, labels))
    assert found == pytest.approx(largest_loss(stated, rates, counts[full] / len(probs)), abs=1e-7)
    square = expected_calibration_error(probs, labels, num_bins=5, norm="l2").item() ** 2
    assert square - 1e-12 <= found <= 2 * expected_calibration_error(probs, labels, num_bins=5).item() + 1e-12


def test_a_decision_loss_by_hand() -> None:
    """Said 0.9 and 0.2, true 0.5 and 0.4: at 1/2 nobody loses, so two opposite thresholds share the pay."""
    probs, labels = [0.9] * 10 + [0.2] * 10, [1] * 5 + [0] * 5 + [1] * 4 + [0] * 6
    # R is 0.2 at 0.9 and 0.1 at 0.2; between these two the chord at 1/2 counts.
    assert calibration_decision_loss(probs, labels).item() == pytest.approx(2 * (0.06 + 0.04) / 0.7, abs=1e-9)


def sharpened(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits of four classes too sharp by 2, labels of the right ones, and the right probabilities."""
    rng = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(count, 4, generator=rng, dtype=torch.float64)
    right = logits.softmax(dim=1)
    return 2 * logits, torch.multinomial(right, 1, generator=rng)[:, 0], right


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, math.inf])
def test_a_planted_temperature_is_bounded_from_below_and_nearly_reached(p: float) -> None:
    """The error of a planted distortion is known; out of folds its bound falls short by little."""
    logits, labels, right = sharpened(4000, 0)
    stated = logits.softmax(dim=1)
    truth = torch.linalg.vector_norm(right - stated, ord=p, dim=1).mean().item()
    found = {
        text: variational_calibration_error(stated, out_of_fold_probs(text, logits, labels), labels, p=p)
        for text in ("temperature", "vector")
    }
    for each in found.values():
        assert abs(each.value.item() - truth) < 3.5 * each.standard_error.item()
        assert each.value.item() > 10 * each.standard_error.item()


@given(seed=SEEDS, p=st.sampled_from([1.0, 1.3, 2.0, 5.0, math.inf]))
def test_no_recalibration_promises_more_than_the_error(seed: int, p: float) -> None:
    """In expectation over labels: any g stays below the error, the true rates reach it, no change gives 0."""
    rng = np.random.default_rng(seed)
    stated, true, other = rng.dirichlet(np.ones(4), size=3)
    classes = np.arange(4)

    def bound(better: np.ndarray) -> float:
        table = [np.tile(row, (4, 1)) for row in (stated, better)]
        return variational_calibration_error(*table, classes, p=p, weights=true).value.item()

    error = float(np.linalg.norm(true - stated, ord=p))
    assert bound(other) <= error + 1e-12
    assert bound(true) == pytest.approx(error, abs=1e-12)
    assert bound(stated) == pytest.approx(0, abs=1e-12)


def test_the_standard_error_is_that_of_a_weighted_mean_in_any_unit() -> None:
    """A gain of each sample is 0.3 times its outcome's sign; uneven weights count as fewer samples."""
    stated, better = [0.9] * 8, [0.75] * 8
    labels, weights = [0, 1, 1, 1, 0, 1, 0, 1], np.array([1.0, 2, 1, 3, 1, 1, 2, 1])
    gains = -(np.array(labels) - 0.9)
    share = weights / weights.sum()
    by_hand = np.sqrt(share**2 @ (gains - share @ gains) ** 2)
    for unit in (1.0, 100.0, 1e-9):
        found = variational_calibration_error(stated, better, labels, weights=unit * weights)
        assert found.value.item() == pytest.approx(share @ gains)
        assert found.standard_error.item() == pytest.approx(by_hand)


def test_right_probabilities_have_no_variational_error() -> None:
    """Within its standard error of zero, over repetitions, where the plug-in of bins is always above."""
    scores = []
    for seed in range(30):
        logits, labels, right = sharpened(400, seed)
        better = out_of_fold_probs("vector", logits / 2, labels, folds=2)
        found = variational_calibration_error(right, better, labels)
        scores.append(found.value.item() / found.standard_error.item())
    assert np.mean(np.array(scores) > 1.645) <= 0.15
    assert abs(np.mean(scores)) < 1
