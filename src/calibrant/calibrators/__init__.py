"""Calibrators: fitted on calibration logits and labels, they map logits to better probabilities."""

from calibrant._math.lazy import public_names
from calibrant.calibrators.affine import Affine as Affine
from calibrant.calibrators.base import Calibrator as Calibrator
from calibrant.calibrators.calibrated_model import CalibratedModel as CalibratedModel
from calibrant.calibrators.cohorts.by_group import GroupCalibrator as GroupCalibrator
from calibrant.calibrators.cohorts.by_group import fit_groups as fit_groups
from calibrant.calibrators.cohorts.many_temperatures import TemperatureFits as TemperatureFits
from calibrant.calibrators.cohorts.many_temperatures import fit_temperatures as fit_temperatures
from calibrant.calibrators.cohorts.multicalibration import Correction as Correction
from calibrant.calibrators.cohorts.multicalibration import Multicalibrator as Multicalibrator
from calibrant.calibrators.cohorts.multicalibration import multicalibrate as multicalibrate
from calibrant.calibrators.cohorts.segments import SegmentCalibrator as SegmentCalibrator
from calibrant.calibrators.cohorts.segments import fit_segments as fit_segments
from calibrant.calibrators.detection import DetectionCalibration as DetectionCalibration
from calibrant.calibrators.detection import fit_detections as fit_detections
from calibrant.calibrators.detection import load_detection_calibration as load_detection_calibration
from calibrant.calibrators.detection import save_detection_calibration as save_detection_calibration
from calibrant.calibrators.drift import ClassChange as ClassChange
from calibrant.calibrators.drift import PriorEstimate as PriorEstimate
from calibrant.calibrators.drift import Shift as Shift
from calibrant.calibrators.drift import adjust_to_prior as adjust_to_prior
from calibrant.calibrators.drift import estimate_prior as estimate_prior
from calibrant.calibrators.drift import shift_of as shift_of
from calibrant.calibrators.fitting.grid import Place as Place
from calibrant.calibrators.fitting.results import FitResult as FitResult
from calibrant.calibrators.fitting.results import Profile as Profile
from calibrant.calibrators.loading import load_calibrator as load_calibrator
from calibrant.calibrators.loading import load_group_calibrator as load_group_calibrator
from calibrant.calibrators.loading import load_multicalibrator as load_multicalibrator
from calibrant.calibrators.local_temperature import LocalTemperature as LocalTemperature
from calibrant.calibrators.local_temperature import fit_local_temperature as fit_local_temperature
from calibrant.calibrators.methods import *
from calibrant.calibrators.methods.temperatures import fit_top_k_temperature as fit_top_k_temperature
from calibrant.calibrators.roster import available as available
from calibrant.calibrators.roster import build as build
from calibrant.calibrators.selection import Candidate as Candidate
from calibrant.calibrators.selection import Selection as Selection
from calibrant.calibrators.selection import out_of_fold_probs as out_of_fold_probs
from calibrant.calibrators.selection import select as select

__all__ = public_names(globals())  # pyright: ignore[reportUnsupportedDunderAll]
