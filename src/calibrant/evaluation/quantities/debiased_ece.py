"""Expected calibration error without what chance adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
    """Over bins of equal width."""
    from calibrant.metrics import expected_calibration_error

    error = expected_calibration_error(confidences, outcomes, num_bins=num_bins, debias=True, weights=weights)
    return float(error)


DEBIASED_ECE = Quantity(
    key="debiased_ece",
    title="Debiased ECE",
    meaning="The ECE less what chance adds to the gap of each bin: closer to the true error of few samples.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value),
    default=False,
    event=Shown(),
    gate=Gate("debiased calibration error"),
)
