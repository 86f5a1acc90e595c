"""The numbers of a run: all metrics before and after what held-out texts fit."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from calibrant import metrics
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import build
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions, load_predictions
from calibrant_lab.sweep.result import RunResult
from papers.measured import errors_of

STAGES = {
    "by-ece": "temperature(objective='ece', search='grid')",
    "by-adaptive-ece": "temperature(objective='adaptive_ece', search='grid')",
    "temperature": "temperature",
    "focal-temperature": "focal-temperature",
}
"""What is fitted on the held-out texts, by the name of the stage."""


def keep(result: RunResult) -> dict[str, Any]:
    """What the results file keeps of a run."""
    accuracies = [row["calibration_accuracy"] for row in result.rows]
    return {
        "cpu_seconds": result.cpu_seconds,
        "train_accuracy": result.rows[-1]["train_accuracy"],
        "kept_epoch": accuracies.index(max(accuracies)) + 1,
        "accuracies": accuracies,
        "temperatures": [row["calibration_temperature"] for row in result.rows],
        **judged(load_predictions(result.file("predictions.npz"))),
    }


def judged(predictions: Predictions) -> dict[str, Any]:
    """The metrics of test samples, as trained and after all that held-out samples fit, and what these fit."""
    held_out, test = Labelled.of(predictions.calibration), Labelled.of(predictions.test)
    fitted = {stage: fit_quietly(build(text), held_out) for stage, text in STAGES.items()}
    found = {stage: each.fit_result_ for stage, each in fitted.items()}
    scores = test.scores.double()
    probs = {"before": scores.softmax(dim=1)}
    probs |= {stage: each.predict_proba(scores).double() for stage, each in fitted.items()}
    return {
        "stages": {stage: measured(each, test.labels) for stage, each in probs.items()},
        "parameters": {
            "temperature": fitted_number(found["temperature"], "temperature"),
            "ece_temperature": fitted_number(found["by-ece"], "temperature"),
            "adaptive_ece_temperature": fitted_number(found["by-adaptive-ece"], "temperature"),
            "focal_temperature": fitted_number(found["focal-temperature"], "temperature"),
            "gamma": fitted_number(found["focal-temperature"], "gamma"),
        },
    }


def measured(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, float]:
    """The metrics of probabilities.

    Example:
        >>> import torch
        >>> found = measured(torch.tensor([[0.9, 0.1], [0.4, 0.6]]).double(), torch.tensor([0, 0]))
        >>> found["error"], round(found["ece"], 3), found["share_above_99"]
        (0.5, 0.35, 0.0)
    """
    return {
        **errors_of(probs, labels),
        "mce": float(metrics.maximum_calibration_error(probs, labels)),
        "share_above_99": float(metrics.high_confidence(probs, labels, threshold=0.99).share),
    }
