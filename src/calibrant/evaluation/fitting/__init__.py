"""The split into calibration and test samples, the calibrators to fit, and the recommendation."""
