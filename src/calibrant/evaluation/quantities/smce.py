"""Smooth calibration error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, _num_bins: int) -> float:
    """Without bins."""
    from calibrant._math.lipschitz import smooth_calibration_error  # compiled

    return smooth_calibration_error(confidences, outcomes, weights)


SMCE = Quantity(
    key="smce",
    title="smCE",
    meaning="Smooth calibration error: the largest error that any smooth weighting of the probabilities "
    "finds; no bins. 0 is perfect.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value, kernel="smooth", null=True),
    event=Shown(),
    gate=Gate("smooth calibration error (smCE)", help="Largest smooth calibration error allowed."),
)
