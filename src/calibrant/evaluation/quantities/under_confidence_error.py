"""The part of the ECE that comes from stating too little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
    """Over bins of equal width."""
    from calibrant.metrics import under_confidence_error

    return float(under_confidence_error(confidences, outcomes, num_bins=num_bins, weights=weights))


UNDER_CONFIDENCE_ERROR = Quantity(
    key="under_confidence_error",
    title="Under-confidence",
    meaning="The part of the ECE from bins where the stated probability falls short of what comes true.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value, null=True),
    default=False,
    event=Shown(),
    gate=Gate("under-confidence error"),
)
