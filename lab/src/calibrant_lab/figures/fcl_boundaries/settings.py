"""Settings of the networks on half-moons: what the paper says, and what it does not."""

NOISE, WIDTH, EPOCHS = 0.2, 10, 500
NUM_POINTS, LEARNING_RATE = 500, 0.01
"""Not said in the reference."""
