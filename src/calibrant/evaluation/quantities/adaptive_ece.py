"""Calibration error over bins of equal mass."""

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown
from calibrant.evaluation.quantities.shared import binned

ADAPTIVE_ECE = Quantity(
    key="adaptive_ece",
    title="Adaptive ECE",
    meaning="The same distance, over bins that hold equally many samples.",
    section="Calibration errors",
    better="lower",
    computed=EventError(binned("mass", "l1"), kernel="mass l1", null=True),
    shown=Shown(comparison=6),
    event=Shown(),
    gate=Gate("adaptive calibration error", help="Largest ECE allowed, with bins of equal mass."),
)
