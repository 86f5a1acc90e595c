"""Which calibrator to use, and how well the data determine its parameters."""
