"""Expected calibration error without what chance adds."""

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown
from calibrant.evaluation.quantities.shared import of_metrics

DEBIASED_ECE = Quantity(
    key="debiased_ece",
    title="Debiased ECE",
    meaning="The ECE less what chance adds to the gap of each bin: closer to the true error of few samples.",
    section="Calibration errors",
    better="lower",
    computed=EventError(of_metrics("expected_calibration_error", debias=True), estimates="width l1"),
    default=False,
    event=Shown(),
    gate=Gate("debiased calibration error"),
)
