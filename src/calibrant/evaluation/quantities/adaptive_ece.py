"""Calibration error over bins of equal mass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
    """Over bins of equal mass."""
    from calibrant.evaluation.resampling.events import binned_error

    return binned_error(confidences, outcomes, weights, num_bins=num_bins, binning="mass", norm="l1")


ADAPTIVE_ECE = Quantity(
    key="adaptive_ece",
    title="Adaptive ECE",
    meaning="The same distance, over bins that hold equally many samples.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value, kernel="mass l1", null=True),
    shown=Shown(terminal=True, comparison=6),
    event=Shown(),
    gate=Gate("adaptive calibration error", help="The same over bins of equal mass."),
)
