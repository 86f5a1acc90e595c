"""The part of the ECE that comes from stating too much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
    """Over bins of equal width."""
    from calibrant.metrics import over_confidence_error

    return float(over_confidence_error(confidences, outcomes, num_bins=num_bins, weights=weights))


OVER_CONFIDENCE_ERROR = Quantity(
    key="over_confidence_error",
    title="Over-confidence",
    meaning="The part of the ECE from bins where the stated probability exceeds what comes true.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value, null=True),
    default=False,
    event=Shown(),
    gate=Gate("over-confidence error"),
)
