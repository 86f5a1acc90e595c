"""Kolmogorov-Smirnov calibration error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, _num_bins: int) -> float:
    """The statistic; its p-value comes from draws, as that of the other errors."""
    from calibrant.metrics import kolmogorov_smirnov_test

    test = kolmogorov_smirnov_test(confidences, outcomes, weights=weights, p_value="asymptotic")
    return float(test.statistic)


KOLMOGOROV_SMIRNOV = Quantity(
    key="kolmogorov_smirnov",
    title="Kolmogorov-Smirnov",
    meaning="Largest cumulative difference between what is stated and what happens, from the lowest "
    "probability up; no bins. 0 is perfect.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value, kernel="cumulative", null=True),
    default=False,
    event=Shown(),
    gate=Gate("Kolmogorov-Smirnov calibration error"),
)
