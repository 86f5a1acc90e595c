"""Maximum calibration error."""

from calibrant.evaluation.quantities.quantity import EventError, Quantity
from calibrant.evaluation.quantities.shared import binned

MCE = Quantity(
    key="mce",
    title="Maximum CE",
    meaning="The largest distance of any bin that holds samples; noisy where it holds few. "
    "What an empty bin may hide is not in its interval.",
    section="Calibration errors",
    better="lower",
    computed=EventError(binned("width", "max"), kernel="width max"),
)
