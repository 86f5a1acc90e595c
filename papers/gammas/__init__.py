"""Exponents of focal loss, and calibration on training and new images."""
