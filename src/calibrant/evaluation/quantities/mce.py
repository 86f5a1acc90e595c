"""Maximum calibration error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Quantity

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
    """Over bins of equal width."""
    from calibrant.evaluation.resampling.events import binned_error

    return binned_error(confidences, outcomes, weights, num_bins=num_bins, binning="width", norm="max")


MCE = Quantity(
    key="mce",
    title="Maximum CE",
    meaning="The largest distance of any bin; noisy where a bin holds few samples.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value, kernel="width max"),
)
