"""Shared computations of quantities, imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from calibrant.evaluation.quantities.quantity import Error
    from calibrant.evaluation.resampling.events import Events, Vector


def binned(binning: Literal["width", "mass"], norm: Literal["l1", "l2", "max"]) -> Error:
    """The calibration error over bins."""

    def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
        from calibrant.evaluation.resampling.events import binned_error

        return binned_error(confidences, outcomes, weights, num_bins=num_bins, binning=binning, norm=norm)

    return value


def of_metrics(name: str, *, bins: bool = True, **options: object) -> Error:
    """A function of :mod:`calibrant.metrics` that is an error of events."""

    def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
        from calibrant import metrics

        more = {"num_bins": num_bins, **options} if bins else options
        return float(getattr(metrics, name)(confidences, outcomes, weights=weights, **more))

    return value


def line(parameter: Literal["slope", "intercept"]) -> Callable[[Events], tuple[float, Vector] | str]:
    """A parameter of the calibration line."""

    def value(events: Events) -> tuple[float, Vector] | str:
        from calibrant.evaluation.resampling.calibration_line import calibration_line

        return calibration_line(events, parameter)

    return value
