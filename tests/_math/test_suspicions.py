"""One-hot labels are classes; logits that look like probabilities get a warning at every door."""

import numpy as np
import pytest
import torch

from calibrant import CalibrantWarning, InputError, metrics
from calibrant.calibrators import TemperatureScaling
from calibrant.metrics import CalibrationError

PROBS = [[0.5, 0.3, 0.2], [0.2, 0.7, 0.1]]
ONE_HOT = [[1, 0, 0], [0, 1, 0]]


def test_one_hot_labels_are_classes() -> None:
    """Beside rows that sum to one they are read as scikit-learn reads them, with a warning."""
    with pytest.warns(CalibrantWarning, match="`labels` are one-hot .* read as classes; .* `probs"):
        found = metrics.brier_score(PROBS, ONE_HOT)
    assert found.item() == pytest.approx(0.26, abs=1e-12)  # (.25 + .09 + .04 + .04 + .09 + .01) / 2
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(5), 500)
    classes = np.array([rng.choice(5, p=row) for row in probs])
    for metric in (metrics.negative_log_likelihood, metrics.accuracy, metrics.expected_calibration_error):
        with pytest.warns(CalibrantWarning, match="one-hot"):
            found = metric(probs, np.eye(5, dtype=int)[classes])
        torch.testing.assert_close(found, metric(probs, classes), rtol=0, atol=0)


def test_labels_that_may_hold_together_stay_labels() -> None:
    """Rows that do not sum to one, or a row with two labels, are several labels per sample."""
    assert metrics.brier_score([[0.5, 0.3], [0.2, 0.7]], [[1, 0], [0, 1]]).item() == pytest.approx(0.1175)
    assert metrics.brier_score([[0.5, 0.5], [0.2, 0.8]], [[1, 1], [0, 1]]).item() == pytest.approx(0.145)


def test_a_fit_to_one_hot_labels() -> None:
    """Logarithms of probabilities are classes'; of other logits it is said that columns were fitted alone."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 300)
    classes = np.array([rng.choice(3, p=row) for row in probs])
    hot = np.eye(3, dtype=int)[classes]
    with pytest.warns(CalibrantWarning, match="read as classes; .* `logits"):
        fitted = TemperatureScaling().fit(np.log(probs), hot)
    assert str(fitted) == str(TemperatureScaling().fit(np.log(probs), classes))
    with pytest.warns(
        CalibrantWarning, match=r"every row of `labels` holds one 1.*pass `labels\.argmax\(1\)`"
    ):
        TemperatureScaling().fit(2 * np.log(probs) + 1, hot)


def test_streaming_metrics_say_what_they_were_given() -> None:
    """Probabilities passed as logits get the warning of ``fit``, one-hot labels both remedies."""
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    with pytest.warns(CalibrantWarning, match="CalibrationError: every row .* leave `from_logits=True` out"):
        CalibrationError(from_logits=True).update(probs, np.zeros(50, dtype=int))
    with pytest.raises(InputError, match=r"for one-hot labels pass `labels\.argmax\(1\)`, .*\"multilabel\""):
        metrics.BrierScore().update(PROBS, ONE_HOT)
