"""Settings of the study of the theory on real predictions."""

GAMMAS = (1.0, 2.0, 3.0)
OWN_LONG_TAIL = "this library, on the long tail"
STORED = {"fashion-mnist": "this library", "long-tail": OWN_LONG_TAIL}
"""Results of the loss study, by the file's name, and whose runs they are said to be."""
PUBLISHED = "mukhoti-2020-focal-loss-calibration.csv"
ASKED = (3.0, 2.0)
"""Exponents that the argument may mean, which names none: their maps are like its 0.4 to 0.5 for some number
of classes."""
MAP_CLASSES = (2, 3, 4, 10)
"""Numbers of classes for which the page says which temperature is closest to these maps."""
MARGIN = 0.1
"""Margin of the paper's "about 1": its tables call 0.9 to 1.1 close to one."""
