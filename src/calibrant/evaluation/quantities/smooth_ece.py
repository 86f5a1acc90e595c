"""Kernel-smoothed calibration error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EventError, Gate, Quantity, Shown

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Vector


def value(confidences: Vector, outcomes: Vector, weights: Vector | None, _num_bins: int) -> float:
    """At the bandwidth that equals it."""
    from calibrant.metrics import smooth_ece

    return float(smooth_ece(confidences, outcomes, weights=weights))


SMOOTH_ECE = Quantity(
    key="smooth_ece",
    title="smECE",
    meaning="Kernel-smoothed calibration error: the distance between what is stated and what happens after "
    "both are smoothed, at the bandwidth that equals the error; no bins. Another quantity than smCE.",
    section="Calibration errors",
    better="lower",
    computed=EventError(value, null=True),
    default=False,
    event=Shown(),
    gate=Gate("kernel-smoothed calibration error (smECE)"),
)
