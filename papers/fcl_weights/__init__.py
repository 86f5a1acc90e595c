"""The weights of focal calibration loss."""
