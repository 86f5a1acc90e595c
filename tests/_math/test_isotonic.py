"""Isotonic regression against scikit-learn, the min-max formula and other proper scores."""

from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from calibrant._math.isotonic import isotonic_blocks

Vector: TypeAlias = NDArray[np.float64]


def sample(rng: np.random.Generator, number: int) -> tuple[Vector, Vector, Vector]:
    """Good, useless and backward models, with and without ties; uneven weights."""
    n = int(rng.integers(1, 60))
    scores = np.round(rng.random(n), [1, 2, 15][number % 3])
    chance = [scores, 0.5 + 0 * scores, 1 - scores, np.round(scores)][number % 4]
    weights = [np.ones(n), rng.random(n) + 0.01][number % 2]
    return scores, (rng.random(n) < chance) * 1.0, weights


def min_max(scores: Vector, outcomes: Vector, weights: Vector) -> Vector:
    """The largest over starts, up to x, of the smallest over ends, from x, of the mean outcome between."""
    fitted = []
    for x in scores:
        best = -np.inf
        for low in scores[scores <= x]:
            means = []
            for high in scores[scores >= x]:
                between = (scores >= low) & (scores <= high)
                means.append(np.average(outcomes[between], weights=weights[between]))
            best = max(best, min(means))
        fitted.append(best)
    return np.array(fitted)


def test_is_that_of_scikit_learn() -> None:
    """On 60 samples the fitted values agree with scikit-learn's to 1e-12."""
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(1)
    for number in range(60):
        scores, outcomes, weights = sample(rng, number)
        fitted = isotonic_blocks(scores, outcomes, weights).at(scores)
        # Scikit-learn clusters scores closer than 1e-10 or so; these are equal or much farther apart.
        expected = IsotonicRegression().fit(scores, outcomes, weights).predict(scores)
        assert fitted == pytest.approx(expected, abs=1e-12), number


def test_is_the_min_max() -> None:
    rng = np.random.default_rng(2)
    for number in range(40):
        scores, outcomes, weights = (column[:12] for column in sample(rng, number))
        fitted = isotonic_blocks(scores, outcomes, weights).at(scores)
        assert fitted == pytest.approx(min_max(scores, outcomes, weights), abs=1e-12), number


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30))
def test_blocks(table: list[tuple[int, bool, int]]) -> None:
    """Steps rise strictly, do not overlap, hold all the weight, and their values are their mean outcomes."""
    scores, outcomes, weights = np.array(table, dtype=np.float64).T
    if not weights.any():
        weights[0] = 1.0
    blocks = isotonic_blocks(scores / 8, outcomes, weights)
    assert np.all(np.diff(blocks.values) > 0)
    assert np.all(blocks.lower[1:] > blocks.upper[:-1])
    assert blocks.weights.sum() == weights.sum()
    for low, high, value, weight in zip(*blocks, strict=True):
        inside = (scores / 8 >= low) & (scores / 8 <= high)
        assert weights[inside].sum() == weight
        assert np.average(outcomes[inside], weights=weights[inside]) == pytest.approx(value, abs=1e-12)
