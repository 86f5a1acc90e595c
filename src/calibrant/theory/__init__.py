"""What a loss asks of a network: the probabilities it elicits, and how to get the true ones back.

Functions of NumPy arrays or torch tensors; values are tensors without gradients.
"""

from calibrant.theory.confidence import (
    ConfidenceChange,
    ConfidenceThreshold,
    confidence_change,
    confidence_threshold,
)
from calibrant.theory.confidence_region import ConfidenceRegion, confidence_region
from calibrant.theory.decomposition import focal_losses, proper_focal_losses, proper_focal_weight
from calibrant.theory.entropy import EntropyBound, entropy_bound, entropy_regularised_minimiser, entropy_shift
from calibrant.theory.focal_calibration import (
    focal_calibration_loss_map,
    focal_calibration_minimiser,
    focal_calibration_phi,
    focal_calibration_risk,
    focal_calibration_root,
)
from calibrant.theory.focal_calibration_claims import (
    ProcessingGaps,
    PropernessGap,
    TopErrors,
    constant_processing_gaps,
    properness_gap,
    top_errors,
)
from calibrant.theory.focal_map import (
    focal_calibration_map,
    focal_calibration_map_logits,
    inverse_focal_calibration_map,
    inverse_focal_calibration_map_logits,
)
from calibrant.theory.generalisation import LinearFit, LogisticWorld, TestPerformance, fit_linear
from calibrant.theory.generalisation_bound import PacBayesBound, pac_bayes_bound
from calibrant.theory.gradients import (
    LambertBranches,
    TurningPoint,
    gradient_factor,
    gradient_threshold,
    gradient_turning_point,
    lambert_branches,
)
from calibrant.theory.gradients_implied import (
    implied_penalty,
    implied_weight_decay,
    logit_convexity_threshold,
    logit_curvature,
)
from calibrant.theory.properness import (
    ClassificationCalibration,
    CounterExample,
    Properness,
    classification_calibration,
    properness,
)
from calibrant.theory.properness_convexity import Convexity, convexity
from calibrant.theory.risk_minimiser import RiskMinimiser, elicited_map, risk_minimiser
from calibrant.theory.temperature import TemperatureBounds, temperature_bounds
from calibrant.theory.temperature_closest import (
    ClosestTemperature,
    Composition,
    TemperatureFit,
    closest_temperature,
    temperature_composition,
    temperature_fit,
)

__all__ = [
    "ClassificationCalibration",
    "ClosestTemperature",
    "Composition",
    "ConfidenceChange",
    "ConfidenceRegion",
    "ConfidenceThreshold",
    "Convexity",
    "CounterExample",
    "EntropyBound",
    "LambertBranches",
    "LinearFit",
    "LogisticWorld",
    "PacBayesBound",
    "ProcessingGaps",
    "Properness",
    "PropernessGap",
    "RiskMinimiser",
    "TemperatureBounds",
    "TemperatureFit",
    "TestPerformance",
    "TopErrors",
    "TurningPoint",
    "classification_calibration",
    "closest_temperature",
    "confidence_change",
    "confidence_region",
    "confidence_threshold",
    "constant_processing_gaps",
    "convexity",
    "elicited_map",
    "entropy_bound",
    "entropy_regularised_minimiser",
    "entropy_shift",
    "fit_linear",
    "focal_calibration_loss_map",
    "focal_calibration_map",
    "focal_calibration_map_logits",
    "focal_calibration_minimiser",
    "focal_calibration_phi",
    "focal_calibration_risk",
    "focal_calibration_root",
    "focal_losses",
    "gradient_factor",
    "gradient_threshold",
    "gradient_turning_point",
    "implied_penalty",
    "implied_weight_decay",
    "inverse_focal_calibration_map",
    "inverse_focal_calibration_map_logits",
    "lambert_branches",
    "logit_convexity_threshold",
    "logit_curvature",
    "pac_bayes_bound",
    "proper_focal_losses",
    "proper_focal_weight",
    "properness",
    "properness_gap",
    "risk_minimiser",
    "temperature_bounds",
    "temperature_composition",
    "temperature_fit",
    "top_errors",
]
