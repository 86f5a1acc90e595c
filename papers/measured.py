"""The errors of probabilities that pages compare, where no evaluation was stored."""

from __future__ import annotations

from torch import Tensor

from calibrant import metrics
from calibrant._math.shapes import Float, Int


def errors_of(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, float]:
    """Error, NLL and errors of calibration, by the keys of results files.

    Example:
        >>> import torch
        >>> found = errors_of(torch.tensor([[0.9, 0.1], [0.4, 0.6]]).double(), torch.tensor([0, 0]))
        >>> found["error"], round(found["ece"], 3)
        (0.5, 0.35)
    """
    return {
        "error": 1 - float(metrics.accuracy(probs, labels)),
        "nll": float(metrics.negative_log_likelihood(probs, labels)),
        "ece": float(metrics.expected_calibration_error(probs, labels)),
        "adaptive_ece": float(metrics.adaptive_calibration_error(probs, labels)),
        "classwise_ece": float(metrics.classwise_calibration_error(probs, labels)),
        "smce": float(metrics.smooth_calibration_error(probs, labels)),
    }
