"""Focal loss, curvature and calibration."""
