"""Settings of the study of the theory on real predictions."""

GAMMAS = (1.0, 2.0, 3.0)
STORED = {"fashion-mnist": "Fashion-MNIST", "long-tail": "Fashion-MNIST, long-tailed"}
"""Results of the loss study, by the file's name, and what to call them."""
PUBLISHED = "mukhoti-2020-focal-loss-calibration.csv"
MARGIN = 0.1
"""Margin of the paper's "about 1": its tables call 0.9 to 1.1 close to one."""
