"""Calibration over time: evidence that is valid after every batch, and metrics of each window."""
