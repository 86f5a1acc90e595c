"""Settings of the calibrator study."""

from __future__ import annotations

AS_THEY_CAME = "uncalibrated"
PLAIN, FOCAL = "temperature", "focal-temperature"
RIVALS = ("vector", "matrix", "structured-matrix")
CRITERIA = ("nll", "brier", "ece", "adaptive_ece")  # fitted by each, judged by each
FITTED_BY = (PLAIN, FOCAL)
MEASURES = ("nll", "brier", "ece", "adaptive_ece", "classwise", "smce", "accuracy")
COMPARED = ("nll", "brier", "ece")  # with standard errors
MOST_CLASSES = {"dirichlet": 50}  # with more a fit takes minutes
RESAMPLES = 400
REFITS = 100
FLOORS = (1e-6, 1e-9, 1e-12)
"""Probabilities below these count as these, one after the other."""
TRIMMED = 0.01
"""The share of samples, those that matter most, that the trimmed gain leaves out."""
