"""Calibrators: fitted on calibration logits and labels, they map logits to better probabilities."""

from calibrant.calibrators.affine import Affine
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.calibrated_model import CalibratedModel
from calibrant.calibrators.choice.landscape import Landscape, objective_landscape
from calibrant.calibrators.choice.ridge import TemperatureRidge, temperature_ridge
from calibrant.calibrators.choice.select import Candidate, Selection, select
from calibrant.calibrators.cohorts.by_group import GroupCalibrator, fit_groups
from calibrant.calibrators.cohorts.files import load_group_calibrator
from calibrant.calibrators.cohorts.many_temperatures import TemperatureFits, fit_temperatures
from calibrant.calibrators.drift.label_shift import PriorEstimate, adjust_to_prior, estimate_prior
from calibrant.calibrators.drift.shift import ClassChange, Shift, shift_of
from calibrant.calibrators.files import load_calibrator
from calibrant.calibrators.fitting.grid import Place
from calibrant.calibrators.fitting.profile import Profile
from calibrant.calibrators.fitting.results import FitResult
from calibrant.calibrators.methods.bayesian_binning import BayesianBinning
from calibrant.calibrators.methods.beta import BetaCalibration
from calibrant.calibrators.methods.bias_corrected_temperature import BiasCorrectedTemperatureScaling
from calibrant.calibrators.methods.dirichlet import DirichletCalibration
from calibrant.calibrators.methods.ensemble_temperature import EnsembleTemperatureScaling
from calibrant.calibrators.methods.focal_temperature import FocalTemperatureScaling
from calibrant.calibrators.methods.histogram import HistogramBinning
from calibrant.calibrators.methods.isotonic import IsotonicCalibration
from calibrant.calibrators.methods.matrix import MatrixScaling
from calibrant.calibrators.methods.platt import PlattScaling
from calibrant.calibrators.methods.quadratic import QuadraticScaling
from calibrant.calibrators.methods.scaling_binning import ScalingBinning
from calibrant.calibrators.methods.smoothed_temperature import SmoothedTemperatureScaling
from calibrant.calibrators.methods.structured import StructuredMatrixScaling
from calibrant.calibrators.methods.temperature import TemperatureScaling
from calibrant.calibrators.methods.vector import VectorScaling
from calibrant.calibrators.roster import available, build

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
