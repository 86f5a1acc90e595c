"""Root mean squared calibration error without what chance adds."""

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown
from calibrant.evaluation.quantities.shared import of_metrics

DEBIASED_L2_ECE = Quantity(
    key="debiased_l2_ece",
    title="Debiased L2 ECE",
    meaning="The L2 ECE from an unbiased estimate of its square; 0 where that is negative.",
    section="Calibration errors",
    better="lower",
    computed=EventError(
        of_metrics("expected_calibration_error", norm="l2", debias=True), estimates="width l2"
    ),
    default=False,
    event=Shown(),
    gate=Gate("debiased L2 calibration error"),
)
