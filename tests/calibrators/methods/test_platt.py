"""Platt scaling: the likelihood's optimum, and what it does where there is none."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from calibrant import CalibrantWarning
from calibrant.calibrators import PlattScaling
from calibrant.metrics import calibration_slope


@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_logistic_regression(calibrated: Callable[..., Any], weighted: bool) -> None:
    scores, labels = calibrated("binary", 500)
    scores = 2.5 * scores + 4
    weights = torch.rand(500, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    result = PlattScaling().fit(scores, labels, weights=weights if weighted else None).fit_result_
    regression = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    regression.fit(scores[:, None].numpy(), labels.numpy(), weights.numpy() if weighted else None)
    assert result.parameters["slope"] == pytest.approx(regression.coef_[0, 0], rel=1e-8)
    assert result.parameters["intercept"] == pytest.approx(regression.intercept_[0], rel=1e-8)
    assert result.converged
    assert result.certificate["gradient"] < 1e-8


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_a_fixed_slope_corrects_calibration_in_the_large(calibrated: Callable[..., Any], unit: float) -> None:
    """The intercept alone is that of :func:`calibration_slope`, and the mean probability the prevalence."""
    scores, labels = calibrated("binary", 300)
    scores = unit * (2 * scores - 3)
    calibrator = PlattScaling(fixed_slope=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # that no log-odds are of such a size
        probs = calibrator.fit(scores, labels).predict_proba(scores)
    assert calibrator.slope.item() == 1
    assert float(probs.mean()) == pytest.approx(labels.double().mean().item(), abs=1e-8)
    if unit == 1:
        large = calibration_slope(scores.sigmoid(), labels).in_the_large.value
        assert calibrator.intercept.item() == pytest.approx(large, abs=1e-7)
    assert (calibrator.num_parameters(2), calibrator.text) == (1, "platt(fixed_slope=True)")


def test_two_points_in_closed_form() -> None:
    scores = torch.tensor([2.0] * 10 + [-1.0] * 10)
    labels = torch.tensor([1] * 7 + [0] * 3 + [1] * 1 + [0] * 9)
    calibrator = PlattScaling().fit(scores, labels)
    probs = calibrator.predict_proba(torch.tensor([2.0, -1.0]))
    np.testing.assert_allclose(probs.numpy(), [0.7, 0.1], rtol=1e-8)  # gradient below 1e-9
    slope = (math.log(0.7 / 0.3) - math.log(0.1 / 0.9)) / 3
    assert calibrator.slope.item() == pytest.approx(slope, rel=1e-7)


def test_separable_data_use_smoothed_targets_and_say_so() -> None:
    """Where a threshold separates the classes, the slope is finite and Platt's targets are met on average."""
    scores = torch.tensor([-0.2, -0.1, -0.05, 0.05, 0.1, 0.3, 0.4])
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    with pytest.warns(CalibrantWarning, match="a threshold separates the classes"):
        calibrator = PlattScaling().fit(scores, labels)
    probs = calibrator.predict_proba(scores)
    assert calibrator.fit_result_.converged
    assert float(probs.sum()) == pytest.approx(4 * 5 / 6 + 3 * 1 / 5, rel=1e-8)
    assert calibrator.slope > 3
    assert ((probs > 0.5) == (labels == 1)).all()


def test_separable_data_that_are_sure_already_stay() -> None:
    scores, labels = torch.tensor([-30.0, -20.0, 25.0, 40.0]), torch.tensor([0, 0, 1, 1])
    with pytest.warns(CalibrantWarning, match="a threshold separates the classes"):
        result = PlattScaling().fit(scores, labels).fit_result_
    assert result.parameters == {"slope": 1.0, "intercept": 0.0}
    assert result.after == result.before


@pytest.mark.parametrize("only", [0, 1])
def test_one_class_keeps_the_slope(calibrated: Callable[..., Any], only: int) -> None:
    scores, labels = calibrated("binary", 50)
    with pytest.warns(CalibrantWarning, match=f"class {1 - only} never occurs"):
        calibrator = PlattScaling().fit(scores, torch.full_like(labels, only))
    assert calibrator.slope.item() == 1
    assert (calibrator.intercept.item() > 0) == (only == 1)
    assert float(calibrator.predict_proba(scores).mean()) == pytest.approx([1 / 52, 51 / 52][only], rel=1e-8)


def test_equal_log_odds_give_the_prevalence() -> None:
    with pytest.warns(CalibrantWarning, match="all log-odds are equal"):
        calibrator = PlattScaling().fit(torch.full((10,), 2.0), torch.tensor([1] * 3 + [0] * 7))
    assert float(calibrator.predict_proba([2.0])[0]) == pytest.approx(0.3, rel=1e-8)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("happened", [0, 1])
def test_a_fixed_slope_of_one_class_has_smoothed_targets(happened: int) -> None:
    """As if there were one more sample of each class; two classes that a threshold parts are not smoothed."""
    log_odds = torch.linspace(-3, 3, 10)
    calibrator = PlattScaling(fixed_slope=True).fit(log_odds, [happened] * 10)
    mean = float(calibrator.predict_proba(log_odds).mean())
    assert mean == pytest.approx(11 / 12 if happened else 1 / 12, abs=1e-9)
    parted = PlattScaling(fixed_slope=True).fit(log_odds, (log_odds > 0).long())
    assert float(parted.predict_proba(log_odds).mean()) == pytest.approx(0.5, abs=1e-9)
    assert not any("smoothed" in each for each in parted.fit_result_.warnings)
