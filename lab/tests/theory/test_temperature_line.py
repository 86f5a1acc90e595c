"""Lines through the temperatures closest to the focal map, and what they foretell of networks."""

from __future__ import annotations

import pytest

from calibrant.theory import closest_temperature
from calibrant_lab import theory


@pytest.mark.parametrize(
    ("num_classes", "max_gamma", "num_gammas", "slope", "intercept"),
    [
        (2, 5, 100, 0.929, 0.863),
        (2, 7, 140, 0.951, 0.821),
        (2, 10, 200, 0.967, 0.774),
        (3, 5, 20, 0.637, 0.894),
        (3, 10, 40, 0.647, 0.870),
    ],
)
def test_lines(num_classes: int, max_gamma: float, num_gammas: int, slope: float, intercept: float) -> None:
    """Slope and intercept depend on the range; in no range are they .95 and .85 at once for two classes."""
    found = theory.temperature_fit(num_classes, max_gamma=max_gamma, num_gammas=num_gammas)
    assert found.slope == pytest.approx(slope, abs=1e-3)
    assert found.intercept == pytest.approx(intercept, abs=1.5e-3)


def test_line_of_four_classes() -> None:
    """Slope .48 to .50, intercept .92 to .97, error up to .10 to .12: not the published .47, .85 and .08."""
    found = theory.temperature_fit(4, max_gamma=5, num_gammas=5)
    assert 0.475 < found.slope < 0.505
    assert 0.915 < found.intercept < 0.975
    assert 0.1 < found.largest_error < 0.12


def test_composition() -> None:
    """The product of the closest temperature and the proper one, by rising exponent."""
    found = theory.temperature_composition({3: 0.9, 1: 1.0}, proper_temperature=2.0, num_classes=3)
    assert [each.gamma for each in found] == [1, 3]
    for each in found:
        assert each.foretold == pytest.approx(2 * closest_temperature(each.gamma, 3).temperature)
    assert [each.fitted for each in found] == [1.0, 0.9]


def test_refused_arguments() -> None:
    """Each with its rule."""
    with pytest.raises(ValueError, match="`max_gamma` must be above 0 and `num_gammas` at least 2"):
        theory.temperature_fit(num_gammas=1)
    with pytest.raises(ValueError, match="temperatures must be above 0 and finite; got 0"):
        theory.temperature_composition({1: 0.0}, proper_temperature=2.0)
