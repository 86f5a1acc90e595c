"""What a small network learns with focal and with focal calibration loss: a figure, no page."""
