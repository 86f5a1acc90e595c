"""Calibration intercept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import ANYTHING, EventInfluence, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Events, Vector


def value(events: Events) -> tuple[float, Vector] | str:
    """The intercept, with the slope held at one."""
    from calibrant.evaluation.resampling.calibration_line import calibration_line

    return calibration_line(events, "intercept")


INTERCEPT = Quantity(
    key="intercept",
    title="Calibration intercept",
    meaning="Shift of the log-odds that would make the mean right: below 0 the probabilities are too high on "
    "the whole, above 0 too low.",
    section="Calibration errors",
    better="near zero",
    bounds=ANYTHING,
    computed=EventInfluence(value),
    event=Shown(),
)
