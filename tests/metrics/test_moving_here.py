"""The numbers that the pages on moving from other libraries give, there (as those print them) and here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calibrant.metrics import (
    adaptive_calibration_error,
    expected_calibration_error,
    risk_coverage_area,
)

PAGES = Path(__file__).parents[2] / "docs" / "moving"
EVENT, OUTCOME = np.array([0.1, 0.2, 0.6, 0.9]), np.array([0, 1, 1, 1])
CLASSES = np.stack([1 - EVENT, EVENT], axis=1)
SURE, RIGHT = np.array([0.95, 0.9, 0.8, 0.7, 0.6]), np.array([1, 1, 1, 0, 0])


def page(name: str) -> str:
    """The text of a page, in one line."""
    return " ".join((PAGES / name).read_text(encoding="utf-8").split())


def test_two_columns_in_netcal_are_an_event() -> None:
    """Netcal 1.4.0 gives 0.3 for both shapes: the row for two columns names the event."""
    assert expected_calibration_error(CLASSES, OUTCOME, num_bins=2).item() == pytest.approx(0.05)
    assert expected_calibration_error(CLASSES[:, 1], OUTCOME, num_bins=2).item() == pytest.approx(0.3)
    assert "netcal gives 0.3 for `(N, 2)` and `(N,)`; here `(N, 2)` gives 0.05" in page("netcal.md")


def test_the_binary_adaptive_error_of_torch_uncertainty() -> None:
    """torch-uncertainty 0.13.0 gives 0.15, as two columns do here; the event's is another."""
    assert adaptive_calibration_error(CLASSES, OUTCOME, num_bins=2).item() == pytest.approx(0.15)
    assert adaptive_calibration_error(EVENT, OUTCOME, num_bins=2).item() == pytest.approx(0.3)
    assert "0.15 there and for two columns here, and 0.3 for the event" in page("torch-uncertainty.md")


def test_the_area_of_torch_uncertainty_is_a_trapezoid() -> None:
    """It gives 0.1125 by the formula below, and NaN for one sample."""
    risks = np.cumsum(1 - RIGHT) / np.arange(1, 6)
    there = np.trapezoid(risks, np.arange(1, 6) / 5) / (1 - 1 / 5)
    assert there == pytest.approx(0.1125)
    assert risk_coverage_area(SURE, RIGHT).item() == pytest.approx(0.13) == np.mean(risks)
    assert risk_coverage_area(SURE[:1], RIGHT[:1]).item() == 0
    assert "0.1125 there and 0.13 here" in page("torch-uncertainty.md")
