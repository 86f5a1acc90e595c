"""The training dynamics that Mukhoti et al. (2020) plot."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from calibrant import metrics
from calibrant._math.shapes import Float, Int

SNAPSHOT_BINS = 25


def dynamics_of(
    logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"], *, num_bins: int
) -> dict[str, float | None]:
    """Error, ECE, and NLL, entropy and probability of the true class over all, correct and incorrect samples.

    A mean over no samples, or one that is not finite, is None.

    Example:
        >>> import torch
        >>> found = dynamics_of(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]), num_bins=15)
        >>> found["error"], round(found["nll_correct"], 4), round(found["p_true_incorrect"], 4)
        (0.5, 0.1269, 0.1192)
    """
    log_probs = logits.double().log_softmax(dim=1)
    probs = log_probs.exp()
    true = log_probs.gather(1, labels[:, None])[:, 0]
    right = probs.argmax(dim=1) == labels
    each = {"nll": -true, "entropy": -(probs * log_probs.clamp(min=-1e4)).sum(dim=1), "p_true": true.exp()}
    found = {
        "error": float((~right).double().mean()),
        "ece": float(metrics.expected_calibration_error(probs, labels, num_bins=num_bins)),
    }
    for name, values in each.items():
        found[name] = float(values.mean())
        found[f"{name}_correct"] = float(values[right].mean())
        found[f"{name}_incorrect"] = float(values[~right].mean())
    return finite_or_none(found)


def finite_or_none(values: Mapping[str, float]) -> dict[str, float | None]:
    """The values, with None, which JSON can hold, for what is not finite."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def bins_of(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, Tensor]:
    """Counts, mean confidence and accuracy of 25 bins of equal width; NaN where a bin is empty."""
    probs = logits.double().softmax(dim=1)
    table = metrics.reliability_table(probs, labels, num_bins=SNAPSHOT_BINS)
    columns = {"counts": table.counts, "confidence": table.confidence, "accuracy": table.accuracy}
    return {
        name: torch.tensor([math.nan if value is None else value for value in values], dtype=torch.float64)
        for name, values in columns.items()
    }


def quarters(epochs: int) -> tuple[int, ...]:
    """Four evenly spaced epochs, the last one included.

    Example:
        >>> quarters(350), quarters(2)
        ((88, 175, 262, 350), (1, 2))
    """
    return tuple(sorted({max(1, round(epochs * quarter / 4)) for quarter in (1, 2, 3, 4)}))
