"""Root mean squared calibration error without what chance adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
    """Over bins of equal width."""
    from calibrant.metrics import expected_calibration_error

    error = expected_calibration_error(
        confidences, outcomes, num_bins=num_bins, norm="l2", debias=True, weights=weights
    )
    return float(error)


DEBIASED_L2_ECE = Quantity(
    key="debiased_l2_ece",
    title="Debiased L2 ECE",
    meaning="The L2 ECE from an unbiased estimate of its square; 0 where that is negative.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value),
    default=False,
    event=Shown(),
    gate=Gate("debiased L2 calibration error"),
)
