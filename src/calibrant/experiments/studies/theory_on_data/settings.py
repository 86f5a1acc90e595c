"""Settings of the study of the theory on real predictions."""

GAMMAS = (1.0, 2.0, 3.0)
OWN_LONG_TAIL = "this library, on the long tail"
STORED = {"fashion-mnist": "this library", "long-tail": OWN_LONG_TAIL}
"""Results of the loss study, by the file's name, and whose runs they are said to be."""
PUBLISHED = "mukhoti-2020-focal-loss-calibration.csv"
ASKED = 3.0
"""The exponent whose map is like a temperature of 0.4 to 0.5, as the argument has it (0.46 in figure 5)."""
MARGIN = 0.1
"""Margin of the paper's "about 1": its tables call 0.9 to 1.1 close to one."""
