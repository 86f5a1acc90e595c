"""Risk, coverage and the area between them."""

import math

import numpy as np
import pytest
import torch

from calibrant import metrics


def area_by_hand(confidences: list[float], losses: list[float], weights: list[float]) -> float:
    """The definition, word by word: for each sample the risk of all that are at least as confident."""
    total = 0.0
    for confidence, own in zip(confidences, weights, strict=True):
        answered = [i for i, other in enumerate(confidences) if other >= confidence]
        mass = math.fsum(weights[i] for i in answered)
        if own > 0:
            total += own * math.fsum(weights[i] * losses[i] for i in answered) / mass
    return total / math.fsum(weights)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_area_is_the_mean_selective_risk(tied: bool, weighted: bool) -> None:
    """Against the definition in plain Python, with ties, any losses, and weights of which some are zero."""
    rng = np.random.default_rng(0)
    confidences = rng.integers(0, 9, 60) / 8 if tied else rng.normal(size=60)
    losses = rng.uniform(size=60)
    weights = rng.integers(0, 4, 60).astype(float) if weighted else np.ones(60)
    curve = metrics.selective_risk_curve(confidences, losses, weights=weights if weighted else None)
    expected = area_by_hand(confidences.tolist(), losses.tolist(), weights.tolist())
    assert curve.area == pytest.approx(expected, rel=1e-12)
    assert list(curve.thresholds) == sorted(set(confidences[weights > 0].tolist()), reverse=True)
    assert curve.coverage[-1] == 1.0
    assert curve.risk[-1] == pytest.approx(weights @ losses / weights.sum(), rel=1e-12)


@pytest.mark.parametrize("errors", [0, 1, 500, 999, 1000])
def test_the_best_order_has_next_to_no_excess(errors: int) -> None:
    """Right above wrong gives an excess that vanishes with N; the opposite order gives more."""
    wrong = np.repeat([0.0, 1.0], [1000 - errors, errors])
    best = metrics.selective_risk_curve(-np.arange(1000.0), wrong)
    assert 0 <= best.excess_area < 6e-3  # of order log(N) / N
    if 0 < errors < 1000:
        assert metrics.selective_risk_curve(np.arange(1000.0), wrong).excess_area > best.excess_area + 1e-3


def test_probabilities_give_the_curve_of_the_error() -> None:
    """Top probability and being wrong; an event's confidence is max(p, 1 − p); labels are averaged."""
    rng = np.random.default_rng(2)
    probs, labels = rng.dirichlet(np.ones(4), 80), rng.integers(0, 4, 80)
    curve = metrics.risk_coverage_curve(probs, labels)
    assert curve == metrics.selective_risk_curve(probs.max(axis=1), probs.argmax(axis=1) != labels)
    assert metrics.risk_coverage_area(probs, labels).item() == curve.area
    event, outcomes = rng.uniform(size=(50, 3)), rng.integers(0, 2, (50, 3))
    apart = [
        metrics.selective_risk_curve(np.maximum(p, 1 - p), (p > 0.5) != y)
        for p, y in zip(event.T, outcomes.T, strict=True)
    ]
    assert metrics.risk_coverage_curve(event[:, 1], outcomes[:, 1]) == apart[1]
    each = metrics.risk_coverage_area(event, outcomes, average="none", excess=True)
    assert each.tolist() == [curve.excess_area for curve in apart]


def test_one_sample_is_enough() -> None:
    curve = metrics.risk_coverage_curve(torch.tensor([[0.3, 0.7]]), torch.tensor([0]))
    assert (curve.coverage, curve.risk, curve.area, curve.excess_area) == ((1.0,), (1.0,), 1.0, 0.0)
