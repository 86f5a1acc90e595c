"""Root mean squared calibration error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Quantity

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
    """Over bins of equal width."""
    from calibrant.evaluation.resampling.events import binned_error

    return binned_error(confidences, outcomes, weights, num_bins=num_bins, binning="width", norm="l2")


L2_ECE = Quantity(
    key="l2_ece",
    title="L2 ECE",
    meaning="Root of the mean squared distance over the bins: large errors weigh more than many small ones.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value, kernel="width l2"),
)
