"""Kernel-smoothed calibration error."""

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown
from calibrant.evaluation.quantities.shared import of_metrics

SMOOTH_ECE = Quantity(
    key="smooth_ece",
    title="smECE",
    meaning="Kernel-smoothed calibration error: the distance between what is stated and what happens after "
    "both are smoothed, at the bandwidth that equals the error; no bins. Another quantity than smCE.",
    section="Calibration errors",
    better="lower",
    computed=EventError(of_metrics("smooth_ece", bins=False), kernel="kernel", null=True),
    default=False,
    event=Shown(),
    gate=Gate("kernel-smoothed calibration error (smECE)"),
)
