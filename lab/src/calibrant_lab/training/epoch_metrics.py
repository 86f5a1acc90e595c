"""How a network in training does on held-out samples, once an epoch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from calibrant import metrics
from calibrant._math.errors import without_warnings
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import TemperatureScaling
from calibrant_lab.training.dynamics import dynamics_of, finite_or_none


def epoch_metrics(
    logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"], *, num_bins: int
) -> dict[str, float | None]:
    """The dynamics of held-out samples, the temperature that suits them and the likelihood after it.

    A value that is not finite is None.
    """
    with without_warnings():  # while the network still learns, a temperature on its bound is no news
        fit = TemperatureScaling().fit(logits, labels).fit_result_
    temperature = fit.parameters["temperature"]
    dynamics = dynamics_of(logits, labels, num_bins=num_bins)
    values = {
        "accuracy": float(metrics.accuracy(logits.double().softmax(dim=1), labels)),
        "nll": float(fit.before),
        "temperature": temperature if isinstance(temperature, float) else math.nan,
        "nll_after_temperature": float(fit.after),
    }
    return {**dynamics, **finite_or_none(values)}


def top_labels(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> tuple[Tensor, Tensor]:
    """Confidence in the predicted class, float64, and whether it is the true one."""
    confidences, predictions = logits.double().softmax(dim=1).max(dim=1)
    return confidences, torch.eq(predictions, labels)
