"""What the exponent of focal temperature scaling gains over temperature scaling, looked at closely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant import metrics
from calibrant.evaluation.fitting.templates import Labelled
from calibrant.predictions import Predictions
from papers.calibrators.crossed import Division
from papers.calibrators.resamples import Resamples, losses_of
from papers.calibrators.settings import (
    COMPARED,
    FLOORS,
    FOCAL,
    PLAIN,
    RIVALS,
    TRIMMED,
)

_MEASURED = {
    "nll": metrics.negative_log_likelihood,
    "brier": metrics.brier_score,
    "ece": metrics.expected_calibration_error,
}


def refitted_gains(division: Division, resamples: Resamples, number: int) -> dict[str, Any]:
    """The gains of resamples to which both calibrators are fitted again, on the same two halves."""
    fitted = [division.judged(name) for name in (PLAIN, FOCAL)]
    gains: dict[str, list[float]] = {name: [] for name in COMPARED}
    for counts in resamples.counts[:number]:
        weights = torch.from_numpy(counts.astype(np.float64))
        if division.data.weights is not None:
            weights = weights * division.data.weights
        data = Labelled(division.data.scores, division.data.labels, weights)
        plain, focal = (_measures(division.judged_again(each, counts), data) for each in fitted)
        for name in COMPARED:
            gains[name].append(plain[name] - focal[name])
    return {"gains": gains}


def _measures(probs: Tensor, data: Labelled) -> dict[str, float]:
    return {
        name: float(measure(probs, data.labels, weights=data.weights)) for name, measure in _MEASURED.items()
    }


def rows_of_gain(predictions: Predictions, seeds: Sequence[int]) -> dict[str, Any]:
    """How the gain in NLL spreads over the samples: mean over the divisions, sample by sample."""
    gains = np.mean([_sample_gains(Division(predictions, seed)) for seed in seeds], axis=0)
    order = np.argsort(np.abs(gains))
    kept = order[: len(order) - math.ceil(TRIMMED * len(order))]
    return {
        "gain": float(gains.mean()),
        "falls": float((gains > 0).mean()),
        "median": float(np.median(gains)),
        "trimmed": float(gains[kept].mean()),
        "largest": float(gains[order[-1]]),
        "zeros": int(impossible(predictions).sum()),
    }


def _sample_gains(division: Division) -> np.ndarray:
    plain, focal = (losses_of(division.judged(name).probs, division.data)["nll"] for name in (PLAIN, FOCAL))
    return plain - focal


def impossible(predictions: Predictions) -> Tensor:
    """Which samples had what is true of them given a probability of exactly zero."""
    return torch.from_numpy(np.isinf(losses_of(predictions.probs, Labelled.of(predictions))["nll"]))


def floored_gains(
    predictions: Predictions, seeds: Sequence[int], resamples: Resamples, *, refits: int
) -> list[Any]:
    """The gains with the probabilities floored here or there, and last without the impossible samples.

    The last also with fits to resamples. Empty where no sample is impossible.
    """
    zero = impossible(predictions)
    if not bool(zero.any()):
        return []
    kept = predictions.rows(~zero)
    found = [
        {"floor": floor, "over": _gains(_floored(predictions, floor), seeds, resamples)} for floor in FLOORS
    ]
    less = Resamples(kept.num_samples, len(resamples.counts), seed=0)
    again = refitted_gains(Division(kept, seeds[0]), less, refits)
    return [*found, {"floor": None, "over": _gains(kept, seeds, less), "refits": again}]


def _floored(predictions: Predictions, floor: float) -> Predictions:
    """The same with no score below the floor's; log-odds neither above that of its complement."""
    low = math.log(floor)
    scores = predictions.scores.double()
    high = math.inf if predictions.kind == "multiclass" else -low
    return Predictions(logits=scores.clamp(low, high), labels=predictions.labels)


def _gains(predictions: Predictions, seeds: Sequence[int], resamples: Resamples) -> dict[str, Any]:
    """Gains of focal temperature scaling over the others, by their names: division by division.

    With the standard error of their mean, the fits being as they are.
    """
    others = (PLAIN, *(RIVALS if predictions.kind == "multiclass" else ()))
    names = (FOCAL, *others)
    values: dict[tuple[str, str], list[float]] = {(name, by): [] for name in names for by in COMPARED}
    draws: dict[tuple[str, str], list[np.ndarray]] = {key: [] for key in values}
    for seed in seeds:
        division = Division(predictions, seed)
        for name in names:
            probs = division.judged(name).probs
            measured, resampled = _measures(probs, division.data), resamples.measures(probs, division.data)
            for by in COMPARED:
                values[name, by].append(measured[by])
                draws[name, by].append(np.array(resampled[by], dtype=np.float64))
    return {
        other: {
            by: {
                "before": float(np.mean(values[other, by])),
                "gains": np.subtract(values[other, by], values[FOCAL, by]).tolist(),
                "error": float(np.std(np.mean(draws[other, by], 0) - np.mean(draws[FOCAL, by], 0), ddof=1)),
            }
            for by in COMPARED
        }
        for other in others
    }
