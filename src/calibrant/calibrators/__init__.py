"""Calibrators: fitted on calibration logits and labels, they map logits to better probabilities."""

from __future__ import annotations

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.bayesian_binning import BayesianBinning
from calibrant.calibrators.beta import BetaCalibration
from calibrant.calibrators.bias_corrected_temperature import BiasCorrectedTemperatureScaling
from calibrant.calibrators.by_group import GroupCalibrator, fit_groups
from calibrant.calibrators.calibrated_model import CalibratedModel
from calibrant.calibrators.dirichlet import DirichletCalibration
from calibrant.calibrators.ensemble_temperature import EnsembleTemperatureScaling
from calibrant.calibrators.files import load_calibrator
from calibrant.calibrators.focal_temperature import FocalTemperatureScaling
from calibrant.calibrators.fold import Affine
from calibrant.calibrators.group_files import load_group_calibrator
from calibrant.calibrators.histogram import HistogramBinning
from calibrant.calibrators.isotonic import IsotonicCalibration
from calibrant.calibrators.label_shift import PriorEstimate, adjust_to_prior, estimate_prior
from calibrant.calibrators.landscape import Landscape, objective_landscape
from calibrant.calibrators.many_temperatures import TemperatureFits, fit_temperatures
from calibrant.calibrators.matrix import MatrixScaling
from calibrant.calibrators.platt import PlattScaling
from calibrant.calibrators.profile import Profile
from calibrant.calibrators.quadratic import QuadraticScaling
from calibrant.calibrators.result import FitResult
from calibrant.calibrators.ridge import Place, TemperatureRidge, temperature_ridge
from calibrant.calibrators.roster import available, build
from calibrant.calibrators.scaling_binning import ScalingBinning
from calibrant.calibrators.select import Candidate, Selection, select
from calibrant.calibrators.shift import ClassChange, Shift, shift_of
from calibrant.calibrators.smoothed_temperature import SmoothedTemperatureScaling
from calibrant.calibrators.structured import StructuredMatrixScaling
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.calibrators.vector import VectorScaling

__all__ = [
    "Affine",
    "BayesianBinning",
    "BetaCalibration",
    "BiasCorrectedTemperatureScaling",
    "CalibratedModel",
    "Calibrator",
    "Candidate",
    "ClassChange",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "FitResult",
    "FocalTemperatureScaling",
    "GroupCalibrator",
    "HistogramBinning",
    "IsotonicCalibration",
    "Landscape",
    "MatrixScaling",
    "Place",
    "PlattScaling",
    "PriorEstimate",
    "Profile",
    "QuadraticScaling",
    "ScalingBinning",
    "Selection",
    "Shift",
    "SmoothedTemperatureScaling",
    "StructuredMatrixScaling",
    "TemperatureFits",
    "TemperatureRidge",
    "TemperatureScaling",
    "VectorScaling",
    "adjust_to_prior",
    "available",
    "build",
    "estimate_prior",
    "fit_groups",
    "fit_temperatures",
    "load_calibrator",
    "load_group_calibrator",
    "objective_landscape",
    "select",
    "shift_of",
    "temperature_ridge",
]
