"""Temperature and focal temperature scaling on the grids of Komisarenko and Kull (2024)."""

from __future__ import annotations

from typing import Any

from calibrant.calibrators.fitting.focal_searches import PAPER_GAMMAS, PAPER_TEMPERATURES
from calibrant.calibrators.fitting.grid import best_on_grid
from calibrant.calibrators.fitting.objectives import objective_value
from calibrant.calibrators.fitting.samples import Samples
from calibrant.evaluation.fitting.templates import Labelled
from calibrant.predictions import Predictions, load_predictions
from calibrant_lab.sweep.result import RunResult

OBJECTIVES = ("nll", "adaptive_ece")
"""By what temperatures and exponents are chosen; the paper's ECE has bins of equal mass."""
ROWS_SIZE = 10000
"""The number of images of the rows of table 1."""


def kept_of(result: RunResult) -> dict[str, Any]:
    """What the results file keeps of a run."""
    found: dict[str, Any] = {"cpu_seconds": result.cpu_seconds, **sides(result)}
    if result.settings["data.train"] == ROWS_SIZE:
        found |= {"error": result.metrics["uncalibrated"]["error"], **fits_of(result)}
    return found


def fits_of(result: RunResult) -> dict[str, Any]:
    """Both methods fitted on the calibration split of a run, and measured on its test split."""
    predictions = load_predictions(result.file("predictions.npz"))
    return fits(_samples(predictions.calibration), _samples(predictions.test))


def sides(result: RunResult) -> dict[str, Any]:
    """A run on its training images and on new ones; nothing if its training images were not measured."""
    if "train_side" not in result.more:
        return {}
    plain = result.metrics["uncalibrated"]
    return {
        "train": result.more["train_side"],
        "new": {
            **{name: plain[name] for name in ("ece", "nll", "gap", "error")},
            "temperature": result.parameters["temperature"]["temperature"],
        },
    }


def fits(held_out: Samples, test: Samples) -> dict[str, Any]:
    """By objective: the temperature alone, and with an exponent, and the metrics of test samples with each.

    The exponents are the paper's nine, without 0, the temperatures 0.01, 0.02, ..., 5.00.
    """
    found: dict[str, Any] = {"before": _judged(test, 1.0, 0.0)}
    for objective in OBJECTIVES:
        for method, gammas in (("temperature", (0.0,)), ("focal", PAPER_GAMMAS)):
            best, _ = best_on_grid(held_out, objective, gammas, PAPER_TEMPERATURES)
            found[f"{method}-{objective}"] = {
                "T": best.temperature,
                "gamma": best.gamma,
                **_judged(test, best.temperature, best.gamma),
            }
    return found


def _judged(test: Samples, temperature: float, gamma: float) -> dict[str, float]:
    return {name: objective_value(test, name, temperature, gamma) for name in OBJECTIVES}


def _samples(part: Predictions) -> Samples:
    found = Labelled.of(part)
    return Samples(found.scores.double(), found.labels, None)
