"""Expected calibration error."""

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown
from calibrant.evaluation.quantities.shared import binned

ECE = Quantity(
    key="ece",
    title="ECE",
    meaning="Expected calibration error: how far the stated probability is from how often it comes true, "
    "on average over bins of equal width. 0 is perfect.",
    section="Calibration errors",
    better="lower",
    computed=EventError(binned("width", "l1"), kernel="width l1", null=True),
    shown=Shown(terminal=True, comparison=2, tile=True, drawn=True),
    event=Shown(terminal=True, comparison=1, tile=True, drawn=True),
    gate=Gate("calibration error (ECE)", help="Largest ECE allowed, e.g. 0.03."),
)
