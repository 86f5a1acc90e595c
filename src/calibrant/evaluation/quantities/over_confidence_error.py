"""The part of the ECE that comes from stating too much."""

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown
from calibrant.evaluation.quantities.shared import of_metrics

OVER_CONFIDENCE_ERROR = Quantity(
    key="over_confidence_error",
    title="Over-confidence",
    meaning="The part of the ECE from bins where the stated probability exceeds what comes true.",
    section="Calibration errors",
    better="lower",
    computed=EventError(of_metrics("over_confidence_error"), kernel="width over", null=True),
    default=False,
    event=Shown(),
    gate=Gate("over-confidence error"),
)
