"""Every number of an evaluation by the public metrics."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant import metrics
from calibrant.predictions import Kind


def public_values(
    kind: Kind, probs: Tensor, labels: Tensor, *, weights: Any = None, num_bins: int = 15
) -> dict[str, float | None]:
    """All that are means, errors in bins or entropies, by their keys; ``None`` where there is none."""
    top = torch.stack([1 - probs, probs], dim=1) if kind == "binary" else probs
    confident = metrics.high_confidence(probs, labels, weights=weights)
    plain, binned = {"weights": weights}, {"num_bins": num_bins, "weights": weights}
    values: dict[str, Any] = {
        "accuracy": metrics.accuracy(probs, labels, **plain),
        "nll": metrics.negative_log_likelihood(probs, labels, **plain),
        "brier": metrics.brier_score(probs, labels, **plain),
        "ece": metrics.expected_calibration_error(top, labels, **binned),
        "adaptive_ece": metrics.adaptive_calibration_error(top, labels, **binned),
        "smce": metrics.smooth_calibration_error(top, labels, **plain),
        "l2_ece": metrics.expected_calibration_error(top, labels, norm="l2", **binned),
        "mce": metrics.maximum_calibration_error(top, labels, **binned),
        "classwise_ece": metrics.classwise_calibration_error(probs, labels, **binned),
        "entropy": metrics.predictive_entropy(probs, labels, **plain),
        "entropy_correct": metrics.predictive_entropy(probs, labels, among="correct", **plain),
        "entropy_incorrect": metrics.predictive_entropy(probs, labels, among="incorrect", **plain),
        "high_confidence_share": confident.share,
        "high_confidence_accuracy": confident.accuracy,
    }
    if kind == "binary":
        values["event_ece"] = metrics.expected_calibration_error(probs, labels, **binned)
        values["event_adaptive_ece"] = metrics.adaptive_calibration_error(probs, labels, **binned)
        values["event_smce"] = metrics.smooth_calibration_error(probs, labels, **plain)
    return {name: None if value is None else float(value) for name, value in values.items()}


def further_values(kind: Kind, probs: Tensor, labels: Tensor) -> dict[str, float]:
    """Those that are not resampled, or follow from others: rates, gap, AUROC, skill and lines."""
    top = torch.stack([1 - probs, probs], dim=1) if kind == "binary" else probs
    confidence = top.amax(dim=1) if kind != "multilabel" else torch.maximum(probs, 1 - probs)
    values: dict[str, Any] = {"auroc": metrics.auroc(probs, labels), "mean_confidence": confidence.mean()}
    values["gap"] = values["mean_confidence"] - metrics.accuracy(probs, labels)
    values["slope"], values["intercept"] = _lines(top, labels)
    if kind != "multiclass":
        values |= {"mean_probability": probs.mean(), "prevalence": labels.double().mean()}
    if kind == "binary":
        rate = labels.double().mean()
        values["brier_skill"] = 1 - ((probs - labels) ** 2).mean() / (rate * (1 - rate))
        values["event_slope"], values["event_intercept"] = _lines(probs, labels)
    return {name: float(value) for name, value in values.items()}


def _lines(probs: Tensor, labels: Tensor) -> tuple[float, float]:
    """Calibration slope, and intercept at slope one; means over the labels where there are several."""
    columns = [(probs, labels)] if labels.ndim == 1 else list(zip(probs.T, labels.T, strict=True))
    found = [metrics.calibration_slope(*each) for each in columns]
    return np.mean([each.slope.value for each in found]), np.mean([each.in_the_large.value for each in found])
