"""What a run says after a temperature that no calibrator of the grid chooses, from its predictions."""

from __future__ import annotations

from calibrant import metrics
from calibrant.calibrators import build
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions
from papers.losses.settings import ADAPTIVE_ECE_SEARCH
from papers.measured import errors_of


def by_adaptive_ece(predictions: Predictions) -> tuple[dict[str, float], float]:
    """The metrics of test samples after the temperature that held-out ones choose by adaptive ECE, and it."""
    fitted = fit_quietly(build(ADAPTIVE_ECE_SEARCH), Labelled.of(predictions.calibration))
    test = Labelled.of(predictions.test)
    probs = fitted.predict_proba(test.scores.double()).double()
    found = {
        **errors_of(probs, test.labels),
        "share_above_99": float(metrics.high_confidence(probs, test.labels, threshold=0.99).share),
    }
    return found, fitted_number(fitted.fit_result_, "temperature")
