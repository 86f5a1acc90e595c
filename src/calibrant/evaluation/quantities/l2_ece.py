"""Root mean squared calibration error."""

from calibrant.evaluation.quantities.quantity import EventError, Quantity
from calibrant.evaluation.quantities.shared import binned

L2_ECE = Quantity(
    key="l2_ece",
    title="L2 ECE",
    meaning="Root of the mean squared distance over the bins: large errors weigh more than many small ones.",
    section="Calibration errors",
    better="lower",
    computed=EventError(binned("width", "l2"), kernel="width l2"),
)
