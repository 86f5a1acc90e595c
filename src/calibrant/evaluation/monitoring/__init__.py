"""Calibration over time: evidence that may be looked at after every batch, and what each window shows."""
