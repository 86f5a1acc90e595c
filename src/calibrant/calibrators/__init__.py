"""Calibrators: fitted on calibration logits and labels, they map logits to better probabilities."""

from __future__ import annotations

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.files import load_calibrator
from calibrant.calibrators.focal_temperature import FocalTemperatureScaling
from calibrant.calibrators.platt import PlattScaling
from calibrant.calibrators.result import FitResult
from calibrant.calibrators.roster import available, build
from calibrant.calibrators.temperature import TemperatureScaling

__all__ = [
    "Calibrator",
    "FitResult",
    "FocalTemperatureScaling",
    "PlattScaling",
    "TemperatureScaling",
    "available",
    "build",
    "load_calibrator",
]
