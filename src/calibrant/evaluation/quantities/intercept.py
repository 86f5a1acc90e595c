"""Calibration intercept."""

from calibrant.evaluation.quantities.quantity import ANYTHING, EventInfluence, Quantity, Shown
from calibrant.evaluation.quantities.shared import line

INTERCEPT = Quantity(
    key="intercept",
    title="Calibration intercept",
    meaning="Shift of the log-odds that would make the mean right: below 0 the probabilities are too high on "
    "the whole, above 0 too low.",
    section="Calibration errors",
    better="near zero",
    bounds=ANYTHING,
    computed=EventInfluence(line("intercept")),
    event=Shown(),
)
