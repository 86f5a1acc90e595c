"""Calibration slope."""

from calibrant.evaluation.quantities.quantity import ANYTHING, EventInfluence, Quantity, Shown
from calibrant.evaluation.quantities.shared import line

SLOPE = Quantity(
    key="slope",
    title="Calibration slope",
    meaning="Slope of what happens on what is stated, in log-odds: below 1 the probabilities are too "
    "extreme, above 1 too timid.",
    section="Calibration errors",
    better="near one",
    bounds=ANYTHING,
    computed=EventInfluence(line("slope")),
    event=Shown(),
)
