"""Calibration slope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import ANYTHING, EventInfluence, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Events, Vector


def value(events: Events) -> tuple[float, Vector] | str:
    """The slope of outcomes on log-odds."""
    from calibrant.evaluation.resampling.calibration_line import calibration_line

    return calibration_line(events, "slope")


SLOPE = Quantity(
    key="slope",
    title="Calibration slope",
    meaning="Slope of what happens on what is stated, in log-odds: below 1 the probabilities are too "
    "extreme, above 1 too timid.",
    section="Calibration errors",
    better="near one",
    bounds=ANYTHING,
    computed=EventInfluence(value),
    event=Shown(),
)
