"""The numbers that the pages on moving from other libraries give, there (as those print them) and here."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot

from calibrant.metrics import (
    AUROC,
    CalibrationError,
    adaptive_calibration_error,
    classwise_calibration_error,
    coverage_at_risk,
    expected_calibration_error,
    risk_at_coverage,
    risk_coverage_area,
)

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"
EVENT, OUTCOME = np.array([0.1, 0.2, 0.6, 0.9]), np.array([0, 1, 1, 1])
CLASSES = np.stack([1 - EVENT, EVENT], axis=1)
SURE, RIGHT = np.array([0.95, 0.9, 0.8, 0.7, 0.6]), np.array([1, 1, 1, 0, 0])


def page() -> str:
    return " ".join(PAGE.read_text(encoding="utf-8").split())


def test_two_columns_in_netcal_are_an_event() -> None:
    """Netcal 1.4.0 gives 0.3 for both shapes: the row for two columns names the event."""
    assert expected_calibration_error(CLASSES, OUTCOME, num_bins=2).item() == pytest.approx(0.05)
    assert expected_calibration_error(CLASSES[:, 1], OUTCOME, num_bins=2).item() == pytest.approx(0.3)
    assert "netcal gives 0.3 for `(N, 2)` and `(N,)` | `(N, 2)` gives 0.05" in page()


def test_the_binary_adaptive_error_of_torch_uncertainty() -> None:
    """torch-uncertainty 0.13.0 gives 0.15, as two columns do here; the event's is another."""
    assert adaptive_calibration_error(CLASSES, OUTCOME, num_bins=2).item() == pytest.approx(0.15)
    assert adaptive_calibration_error(EVENT, OUTCOME, num_bins=2).item() == pytest.approx(0.3)
    assert "0.15 in torch-uncertainty | 0.15 for two columns, 0.3 for the event" in page()


def test_the_area_of_torch_uncertainty_is_a_trapezoid() -> None:
    """It gives 0.1125 by the formula below, and NaN for one sample."""
    risks = np.cumsum(1 - RIGHT) / np.arange(1, 6)
    there = np.trapezoid(risks, np.arange(1, 6) / 5) / (1 - 1 / 5)
    assert there == pytest.approx(0.1125)
    assert risk_coverage_area(SURE, RIGHT).item() == pytest.approx(0.13) == np.mean(risks)
    assert risk_coverage_area(SURE[:1], RIGHT[:1]).item() == 0
    assert "torch-uncertainty: 0.1125 | the mean risk: 0.13" in page()


def test_risk_at_coverage_and_coverage_at_risk() -> None:
    """As `RiskAt80Cov` and `CovAt5Risk` print them; ties count as a whole, and no coverage is 0."""
    assert risk_at_coverage(SURE, RIGHT, coverage=0.8).item() == 0.25
    assert coverage_at_risk(SURE, RIGHT, risk=0.05).item() == pytest.approx(0.6)
    assert risk_at_coverage([0.9, 0.6, 0.6, 0.6], [1, 0, 1, 1], coverage=0.5).item() == 0.25
    assert coverage_at_risk(SURE, 1 - RIGHT, risk=0.05).item() == 0
    assert risk_at_coverage(SURE, RIGHT, coverage=0).item() == 0
    weights = [1, 1, 1, 6, 1]
    assert risk_at_coverage(SURE, RIGHT, coverage=0.8, weights=weights).item() == pytest.approx(6 / 9)


def test_classwise_error_without_what_chance_adds() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), size=2000)
    labels = (rng.random((2000, 1)) > probs.cumsum(axis=1)).sum(axis=1)
    for norm in ("l1", "l2"):
        found = classwise_calibration_error(probs, labels, norm=norm, debias=True, average="none")
        each = [
            expected_calibration_error(probs[:, k], labels == k, norm=norm, debias=True) for k in range(4)
        ]
        assert found.tolist() == pytest.approx([float(value) for value in each], abs=1e-12)
    plain = classwise_calibration_error(probs, labels).item()
    assert classwise_calibration_error(probs, labels, debias=True).item() < plain / 2
    event = classwise_calibration_error(probs[:, 0], labels == 0, debias=True)
    assert event == expected_calibration_error(probs[:, 0], labels == 0, debias=True)


def test_streaming_metrics_show_settings_and_draw() -> None:
    """What is not the default is in `repr`; `plot` is torchmetrics'."""
    metric = CalibrationError(num_bins=10, norm="l2")
    assert repr(metric) == "CalibrationError(num_bins=10, norm='l2')"
    metric.update(CLASSES, OUTCOME)
    figure, axes = metric.plot()
    assert float(axes.lines[0].get_ydata()[0]) == pytest.approx(metric.compute().item())
    pyplot.close(figure)
    assert repr(AUROC(num_classes=3)) == "AUROC(num_classes=3)"
