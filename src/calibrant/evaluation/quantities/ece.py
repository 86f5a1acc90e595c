"""Expected calibration error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
    """Over bins of equal width."""
    from calibrant.evaluation.resampling.events import binned_error

    return binned_error(confidences, outcomes, weights, num_bins=num_bins, binning="width", norm="l1")


ECE = Quantity(
    key="ece",
    title="ECE",
    meaning="Expected calibration error: how far the stated probability is from how often it comes true, "
    "on average over bins of equal width. 0 is perfect.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value, kernel="width l1", null=True),
    shown=Shown(terminal=True, comparison=2, tile=True, drawn=True),
    event=Shown(terminal=True, comparison=1, tile=True, drawn=True),
    gate=Gate("calibration error (ECE)", help="The most calibration error, as in 0.03."),
)
