"""The part of the ECE that comes from stating too little."""

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown
from calibrant.evaluation.quantities.shared import of_metrics

UNDER_CONFIDENCE_ERROR = Quantity(
    key="under_confidence_error",
    title="Under-confidence",
    meaning="The part of the ECE from bins where the stated probability falls short of what comes true.",
    section="Calibration errors",
    better="lower",
    computed=EventError(of_metrics("under_confidence_error"), kernel="width under", null=True),
    default=False,
    event=Shown(),
    gate=Gate("under-confidence error"),
)
