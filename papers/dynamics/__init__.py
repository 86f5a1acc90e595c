"""Calibration, entropy and weights by epoch."""
