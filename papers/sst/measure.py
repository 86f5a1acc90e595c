"""The numbers of a run under both conventions: the neutral class struck out, or two classes renormalised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from calibrant import metrics
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import FocalTemperatureScaling, TemperatureScaling
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.predictions import load_predictions
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.training.neutral import (
    Convention,
    best_of_grid,
    fitted_under,
    probs_of,
    top_event,
    with_neutral,
)

STRUCK: Convention = "struck"
RENORMALISED: Convention = "renormalised"


def keep(result: RunResult) -> dict[str, Any]:
    """What the results file keeps of a run."""
    predictions = load_predictions(result.file("predictions.npz"))
    held_out, test = predictions.calibration, predictions.test
    if held_out.labels is None or test.labels is None:
        raise InputError(f"run {result.run} holds no labels.")
    accuracies = [row["calibration_accuracy"] for row in result.rows]
    logits = {"calibration": held_out.scores.double(), "test": test.scores.double()}
    return {
        "cpu_seconds": result.cpu_seconds,
        "train_accuracy": result.rows[-1]["train_accuracy"],
        "kept_epoch": accuracies.index(max(accuracies)) + 1,
        "temperatures": [row["calibration_temperature"] for row in result.rows],
        "conventions": {
            convention: judged(logits, held_out.labels, test.labels, convention)
            for convention in (STRUCK, RENORMALISED)
        },
    }


def judged(
    logits: Mapping[str, Float[Tensor, "_ 2"]],
    held_out: Int[Tensor, " M"],
    labels: Int[Tensor, " N"],
    convention: Convention,
) -> dict[str, Any]:
    """All metrics under a convention, before and after temperatures that held-out samples chose."""

    def at(temperature: float, part: str) -> Tensor:
        return probs_of(logits[part], convention, temperature=temperature)

    plain, focal = (
        fitted_under(convention, each, logits["calibration"], held_out)
        for each in (TemperatureScaling(), FocalTemperatureScaling())
    )
    by_ece, by_adaptive_ece = (
        best_of_grid(lambda found, of=error: float(of(*top_event(at(found, "calibration"), held_out))))
        for error in (metrics.expected_calibration_error, metrics.adaptive_calibration_error)
    )
    temperature = fitted_number(plain.fit_result_, "temperature")
    wide = logits["test"].double() if convention == RENORMALISED else with_neutral(logits["test"])
    repaired = focal.predict_proba(wide).double()
    return {
        "stages": {
            "before": measured(at(1.0, "test"), labels),
            "by-ece": measured(at(by_ece, "test"), labels),
            "by-adaptive-ece": measured(at(by_adaptive_ece, "test"), labels),
            "temperature": measured(at(temperature, "test"), labels),
            "focal-temperature": measured(
                repaired if convention == RENORMALISED else repaired[:, ::2], labels
            ),
        },
        "parameters": {
            "temperature": temperature,
            "ece_temperature": by_ece,
            "adaptive_ece_temperature": by_adaptive_ece,
            "focal_temperature": fitted_number(focal.fit_result_, "temperature"),
            "gamma": fitted_number(focal.fit_result_, "gamma"),
        },
    }


def measured(probs: Float[Tensor, "N 2"], labels: Int[Tensor, " N"]) -> dict[str, float]:
    """The metrics of the top class, whether or not probabilities sum to one.

    Example:
        >>> import torch
        >>> found = measured(torch.tensor([[0.5, 0.25], [0.2, 0.6]]), torch.tensor([0, 0]))
        >>> found["error"], round(found["ece"], 3), round(found["nll"], 3)
        (0.5, 0.55, 1.151)
    """
    confidences, right = top_event(probs.double(), labels)
    truth = probs.double().gather(1, labels[:, None]).squeeze(1)
    return {
        "error": 1 - float(right.double().mean()),
        "nll": float(-truth.clamp(min=1e-300).log().mean()),
        "ece": float(metrics.expected_calibration_error(confidences, right)),
        "adaptive_ece": float(metrics.adaptive_calibration_error(confidences, right)),
        "mce": float(metrics.maximum_calibration_error(confidences, right)),
        "smce": float(metrics.smooth_calibration_error(confidences, right)),
        "share_above_99": float((confidences >= 0.99).double().mean()),
    }
