"""Spiegelhalter's z."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from calibrant.metrics import brier_score, spiegelhalter_test


@pytest.mark.parametrize("weighted", [False, True])
def test_the_statistic_is_the_standardised_brier_score(rng: np.random.Generator, weighted: bool) -> None:
    """Score minus its mean over its deviation, both by listing each outcome's two possibilities."""
    p = rng.random(80)
    y = (rng.random(80) < p).astype(int)
    w = rng.choice([0.0, 1.0, 2.5], size=80) if weighted else np.ones(80)
    share = w / w.sum()
    mean = share @ (p * (1 - p) ** 2 + (1 - p) * p**2)
    square = p * (1 - p) ** 4 + (1 - p) * p**4 - (p * (1 - p) ** 2 + (1 - p) * p**2) ** 2
    weights = w if weighted else None
    z = (brier_score(p, y, weights=weights).item() - mean) / math.sqrt(share**2 @ square)
    found = spiegelhalter_test(p, y, weights=weights)
    assert found.statistic.item() == pytest.approx(z, abs=1e-11)  # fourth powers cancel
    assert found.p_value.item() == pytest.approx(2 * norm.sf(abs(z)), abs=1e-11)


def test_standard_normal_under_calibration() -> None:
    """Mean 0 and variance 1 over 2000 calibrated models; |z| < 4."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        p = rng.beta(2, 1, size=60)
        found.append(spiegelhalter_test(p, (rng.random(60) < p).astype(int)).statistic.item())
    assert abs(np.mean(found)) < 4 / math.sqrt(2000)
    assert abs(np.var(found) - 1) < 4 * math.sqrt(2 / 2000)


def test_sign_and_columns(rng: np.random.Generator) -> None:
    """Over-confidence is positive; classes are judged by the top label or one by one."""
    true = rng.dirichlet([1, 1, 1], size=600)
    labels = np.array([rng.choice(3, p=row) for row in true])
    sharp = true**3 / (true**3).sum(axis=1, keepdims=True)
    assert spiegelhalter_test(sharp, labels).statistic > 4
    columns = spiegelhalter_test(sharp, labels, classwise=True)
    many = spiegelhalter_test(sharp[:, :2], np.eye(3, dtype=int)[labels][:, :2])
    assert columns.statistic.shape == (3,)
    for k in range(2):
        alone = spiegelhalter_test(sharp[:, k], (labels == k).astype(int))
        assert columns.statistic[k] == many.statistic[k] == alone.statistic
    top = spiegelhalter_test(sharp.max(axis=1), (sharp.argmax(axis=1) == labels).astype(int))
    assert spiegelhalter_test(sharp, labels) == top


def test_edges() -> None:
    """Nothing to vary gives 0 and 1; a wrong certainty gives infinity and 0; one sample works."""
    nothing = spiegelhalter_test([0.5, 0.0, 1.0], [1, 0, 1])
    assert (nothing.statistic, nothing.p_value) == (0, 1)
    wrong = spiegelhalter_test([0.0, 1.0], [1, 1])
    assert (wrong.statistic, wrong.p_value) == (math.inf, 0)
    one = spiegelhalter_test([0.8], [0])
    assert one.statistic.item() == pytest.approx(2.0)
