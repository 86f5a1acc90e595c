"""The numbers of a run under both conventions, and what theory predicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from calibrant import metrics, theory
from calibrant._math.errors import InputError, without_warnings
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import Calibrator, FocalTemperatureScaling, TemperatureScaling
from calibrant.experiments.means import rounded
from calibrant.experiments.result import RunResult
from calibrant.experiments.studies.sst.settings import GAMMAS, METRICS, RENORMALISED, STRUCK
from calibrant.predictions import load_predictions
from calibrant.training.neutral import Convention, probs_of, with_neutral

_GRID = torch.arange(1, 101, dtype=torch.float64) / 10  # temperatures that Mukhoti et al. (2020) try


def kept_of(result: RunResult) -> dict[str, Any]:
    """What the results file keeps of a run."""
    predictions = load_predictions(result.file("predictions.npz"))
    held_out, test = predictions.calibration, predictions.test
    if held_out.labels is None or test.labels is None:
        raise InputError(f"run {result.run} holds no labels.")
    accuracies = [row["calibration_accuracy"] for row in result.rows]
    logits = {"calibration": _stored(held_out.scores), "test": _stored(test.scores)}
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


def _stored(scores: Tensor) -> Float[Tensor, "N 2"]:
    """Log-probabilities of two of three classes, as the network gave them."""
    return scores.double()


def judged(
    logits: Mapping[str, Tensor],
    held_out: Int[Tensor, " M"],
    labels: Int[Tensor, " N"],
    convention: Convention,
) -> dict[str, Any]:
    """All metrics under a convention, before and after temperatures that held-out samples chose."""

    def at(temperature: float, part: str) -> Tensor:
        return probs_of(logits[part], convention, temperature=temperature)

    plain, focal = (_fitted(each, logits["calibration"], held_out, convention) for each in _KINDS)
    by = {
        name: _best(lambda temperature: at(temperature, "calibration"), held_out, error)
        for name, error in (
            ("ece", metrics.expected_calibration_error),
            ("adaptive-ece", metrics.adaptive_calibration_error),
        )
    }
    temperature = _number(plain, "temperature")
    wide = logits["test"].double() if convention == RENORMALISED else with_neutral(logits["test"])
    repaired = focal.predict_proba(wide).double()
    return {
        "stages": {
            "before": measured(at(1.0, "test"), labels),
            "by-ece": measured(at(by["ece"], "test"), labels),
            "by-adaptive-ece": measured(at(by["adaptive-ece"], "test"), labels),
            "temperature": measured(at(temperature, "test"), labels),
            "focal-temperature": measured(
                repaired if convention == RENORMALISED else repaired[:, ::2], labels
            ),
        },
        "parameters": {
            "temperature": temperature,
            "ece_temperature": by["ece"],
            "adaptive_ece_temperature": by["adaptive-ece"],
            "focal_temperature": _number(focal, "temperature"),
            "gamma": _number(focal, "gamma"),
        },
    }


_KINDS: tuple[Callable[[], Calibrator], ...] = (TemperatureScaling, FocalTemperatureScaling)


def _fitted(
    kind: Callable[[], Calibrator], logits: Tensor, labels: Tensor, convention: Convention
) -> Calibrator:
    """By NLL, of three classes where neutral is struck out."""
    with without_warnings():
        if convention == RENORMALISED:
            return kind().fit(logits.double(), labels)
        return kind().fit(with_neutral(logits), labels * 2)


def _number(calibrator: Calibrator, name: str) -> float:
    value = calibrator.fit_result_.parameters[name]
    if not isinstance(value, float):
        raise TypeError(f"`{name}` must be one number; got {value}.")
    return value


def _best(probs: Callable[[float], Tensor], labels: Tensor, error: Callable[..., Tensor]) -> float:
    found = [float(error(*_event(probs(temperature), labels), num_bins=15)) for temperature in _GRID.tolist()]
    return float(_GRID[found.index(min(found))])


def _event(probs: Float[Tensor, "N 2"], labels: Int[Tensor, " N"]) -> tuple[Tensor, Tensor]:
    """Confidences in the more probable class, and whether it is right."""
    confidences, predicted = probs.max(dim=1)
    return confidences, (predicted == labels).long()


def measured(probs: Float[Tensor, "N 2"], labels: Int[Tensor, " N"]) -> dict[str, float]:
    """The metrics of the top class, whether or not probabilities sum to one.

    Example:
        >>> found = measured(torch.tensor([[0.5, 0.25], [0.2, 0.6]]), torch.tensor([0, 0]))
        >>> found["error"], round(found["ece"], 3), round(found["nll"], 3)
        (0.5, 0.55, 1.151)
    """
    confidences, right = _event(probs.double(), labels)
    truth = probs.double().gather(1, labels[:, None]).squeeze(1)
    found = {
        "error": 1 - float(right.double().mean()),
        "nll": float(-truth.clamp(min=1e-300).log().mean()),
        "ece": float(metrics.expected_calibration_error(confidences, right)),
        "adaptive_ece": float(metrics.adaptive_calibration_error(confidences, right)),
        "mce": float(metrics.maximum_calibration_error(confidences, right)),
        "smce": float(metrics.smooth_calibration_error(confidences, right)),
        "share_above_99": float((confidences > 0.99).double().mean()),
    }
    return {name: found[name] for name in METRICS}


def predictions_of_theory() -> list[dict[str, float | None]]:
    """The temperature closest to the focal map of two classes, and of three."""
    return [
        {
            "gamma": float(gamma),
            "binary": rounded(theory.closest_temperature(gamma).temperature),
            "three": rounded(theory.closest_temperature(gamma, 3).temperature),
        }
        for gamma in GAMMAS
    ]
