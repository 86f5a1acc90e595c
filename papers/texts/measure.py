"""The numbers of a run: all metrics before and after what held-out texts fit."""

from __future__ import annotations

from typing import Any

from calibrant.calibrators import build
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions, load_predictions
from calibrant_lab.sweep.result import RunResult
from papers.losses.measure import BY_ADAPTIVE_ECE, BY_ECE, CALIBRATED, measured

STAGES = {"by-ece": BY_ECE, "by-adaptive-ece": BY_ADAPTIVE_ECE, **{name: name for name in CALIBRATED}}
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
    scores = test.scores.double()

    def number(stage: str, name: str = "temperature") -> float:
        return fitted_number(fitted[stage].fit_result_, name)

    probs = {"before": scores.softmax(dim=1)}
    probs |= {stage: each.predict_proba(scores).double() for stage, each in fitted.items()}
    return {
        "stages": {stage: measured(each, test.labels) for stage, each in probs.items()},
        "parameters": {
            "temperature": number("temperature"),
            "ece_temperature": number("by-ece"),
            "adaptive_ece_temperature": number("by-adaptive-ece"),
            "focal_temperature": number("focal-temperature"),
            "gamma": number("focal-temperature", "gamma"),
        },
    }
