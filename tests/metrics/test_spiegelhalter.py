"""Spiegelhalter's z."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from calibrant.metrics import brier_score, spiegelhalter_test


@pytest.mark.parametrize("weighted", [False, True])
def test_the_statistic_is_the_standardised_brier_score(rng: np.random.Generator, weighted: bool) -> None:
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


def test_over_confidence_is_positive(rng: np.random.Generator) -> None:
    true = rng.dirichlet([1, 1, 1], size=600)
    labels = np.array([rng.choice(3, p=row) for row in true])
    sharp = true**3 / (true**3).sum(axis=1, keepdims=True)
    assert spiegelhalter_test(sharp, labels).statistic > 4


def test_edges() -> None:
    """Nothing to vary gives 0 and 1; a wrong certainty gives infinity and 0; one sample works."""
    nothing = spiegelhalter_test([0.5, 0.0, 1.0], [1, 0, 1])
    assert (nothing.statistic, nothing.p_value) == (0, 1)
    wrong = spiegelhalter_test([0.0, 1.0], [1, 1])
    assert (wrong.statistic, wrong.p_value) == (math.inf, 0)
    one = spiegelhalter_test([0.8], [0])
    assert one.statistic.item() == pytest.approx(2.0)
