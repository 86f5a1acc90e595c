"""What a loss asks of a network: the probabilities it elicits, and how to get the true ones back.

Functions of NumPy arrays or torch tensors; values are tensors without gradients.
"""

from __future__ import annotations

from calibrant.theory.focal_map import (
    focal_calibration_map,
    focal_calibration_map_logits,
    inverse_focal_calibration_map,
    inverse_focal_calibration_map_logits,
)

__all__ = [
    "focal_calibration_map",
    "focal_calibration_map_logits",
    "inverse_focal_calibration_map",
    "inverse_focal_calibration_map_logits",
]
