"""Many Lipschitz programmes at once: the values of the certified solver."""

import numpy as np
import pytest

from calibrant._math.lipschitz import lipschitz_maximum, lipschitz_values, merge_ties


@pytest.mark.parametrize("spread", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("ties", [False, True])
def test_values_are_those_of_the_certified_solver(
    rng: np.random.Generator, spread: float, ties: bool
) -> None:
    """300 random programmes of 1 to 60 points, with zeros, ties and residuals of unlike size."""
    for _ in range(50):
        size = int(rng.integers(1, 60))
        points = np.sort(rng.random(size)) * spread
        if ties:
            points = np.round(points / spread, 1) * spread
        residuals = rng.normal(size=(6, size)) * rng.choice([0, 1, 1e-3], (6, size)) / size
        found = lipschitz_values(points, residuals)
        for value, row in zip(found, residuals, strict=True):
            distinct, sums, _ = merge_ties(points, row)
            assert value == pytest.approx(lipschitz_maximum(distinct, sums).value, abs=1e-13)


def test_a_row_does_not_depend_on_those_before_it(rng: np.random.Generator) -> None:
    """The workspace is used again for every row; each row alone gives the same bits."""
    points, residuals = np.sort(rng.random(40)), rng.normal(size=(9, 40))
    alone = [lipschitz_values(points, row[None])[0] for row in residuals]
    assert lipschitz_values(points, residuals).tolist() == alone


def test_closed_forms() -> None:
    points = np.array([0.2, 0.5])
    found = lipschitz_values(points, np.array([[0.0, 0.0], [-0.7, 0.0], [0.5, -0.5], [0.5, 0.25]]))
    assert found == pytest.approx([0.0, 0.7, 0.15, 0.75], abs=1e-15)
