"""How calibration changes during a training."""
