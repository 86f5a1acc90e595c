"""How strong each corruption is at severities 1 to 5, as the authors published it for three sizes of images.

The rows are those of the authors' code (``make_cifar_c.py``, ``make_tinyimagenet_c.py`` and
``make_imagenet_c.py``). Lengths in pixels are meant at 32, 64 and 224 pixels; those of
``elastic-transform`` are shares of the side.

References:
    Hendrycks and Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and
    Perturbations", ICLR 2019.
"""

from __future__ import annotations

from typing import Any

Levels = tuple[Any, Any, Any, Any, Any]

_CIFAR: dict[str, Levels] = {
    "gaussian-noise": (0.04, 0.06, 0.08, 0.09, 0.10),  # standard deviation
    "shot-noise": (500, 250, 100, 75, 50),  # photons of white
    "impulse-noise": (0.01, 0.02, 0.03, 0.05, 0.07),  # share of values
    "defocus-blur": (
        (0.3, 0.4),
        (0.4, 0.5),
        (0.5, 0.6),
        (1, 0.2),
        (1.5, 0.1),
    ),  # radius, smoothing of the disk
    "glass-blur": (
        (0.05, 1, 1),
        (0.25, 1, 1),
        (0.4, 1, 1),
        (0.25, 1, 2),
        (0.4, 1, 2),
    ),  # sigma, reach, rounds
    "motion-blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),  # radius, sigma
    "zoom-blur": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),  # end, step
    # mean and deviation of the flakes, zoom, threshold, radius and sigma of their motion, share of the image
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),  # weights of image and frost
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),  # weight, decay of the roughness
    "brightness": (0.05, 0.1, 0.15, 0.2, 0.3),  # added to the value of HSV
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),  # share of the deviation from the mean
    # displacement, its sigma, displacement of the corners
    "elastic-transform": (
        (0, 0, 0.08),
        (0.05, 0.2, 0.07),
        (0.08, 0.06, 0.06),
        (0.1, 0.04, 0.05),
        (0.1, 0.03, 0.03),
    ),
    "pixelate": (0.95, 0.9, 0.85, 0.75, 0.65),  # share of the side
    "jpeg-compression": (80, 65, 58, 50, 40),  # quality
}

_TINY_IMAGENET: dict[str, Levels] = {
    "gaussian-noise": (0.04, 0.08, 0.12, 0.15, 0.18),
    "shot-noise": (250, 100, 50, 30, 15),
    "impulse-noise": (0.01, 0.02, 0.05, 0.08, 0.14),
    "defocus-blur": ((0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
    "glass-blur": ((0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
    "motion-blur": ((10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
    "zoom-blur": _CIFAR["zoom-blur"],
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
    ),
    "frost": ((1, 0.3), (0.9, 0.4), (0.8, 0.45), (0.75, 0.5), (0.7, 0.55)),
    "fog": ((0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
    "brightness": (0.1, 0.2, 0.3, 0.4, 0.5),
    "contrast": (0.4, 0.3, 0.2, 0.1, 0.05),
    "elastic-transform": (
        (0, 0, 0.08),
        (0.05, 0.3, 0.06),
        (0.1, 0.08, 0.06),
        (0.1, 0.03, 0.03),
        (0.16, 0.03, 0.02),
    ),
    "pixelate": (0.9, 0.8, 0.7, 0.6, 0.5),
    "jpeg-compression": (65, 58, 50, 40, 25),
}

_WIDE = 244 / 224  # the authors wrote 244 for the side of 224
_IMAGENET: dict[str, Levels] = {
    "gaussian-noise": (0.08, 0.12, 0.18, 0.26, 0.38),
    "shot-noise": (60, 25, 12, 5, 3),
    "impulse-noise": (0.03, 0.06, 0.09, 0.17, 0.27),
    "defocus-blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "glass-blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "motion-blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom-blur": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "frost": ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75)),
    "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    "brightness": _TINY_IMAGENET["brightness"],
    "contrast": _TINY_IMAGENET["contrast"],
    "elastic-transform": (
        (2 * _WIDE, 0.7 * _WIDE, 0.1 * _WIDE),
        (2 * _WIDE, 0.08 * _WIDE, 0.2 * _WIDE),
        (0.05 * _WIDE, 0.01 * _WIDE, 0.02 * _WIDE),
        (0.07 * _WIDE, 0.01 * _WIDE, 0.02 * _WIDE),
        (0.12 * _WIDE, 0.01 * _WIDE, 0.02 * _WIDE),
    ),
    "pixelate": (0.6, 0.5, 0.4, 0.3, 0.25),
    "jpeg-compression": (25, 18, 15, 10, 7),
}

CONSTANTS: dict[int, dict[str, Levels]] = {32: _CIFAR, 64: _TINY_IMAGENET, 224: _IMAGENET}
"""By the side for which they were published."""


def constants(corruption: str, severity: int, *, side: int) -> Any:
    """The constants for images whose shorter side has so many pixels: those of the nearest size, in ratio.

    Example:
        >>> constants("gaussian-noise", 5, side=28), constants("gaussian-noise", 5, side=128)
        (0.1, 0.38)
    """
    published = min(CONSTANTS, key=lambda size: max(size / side, side / size))
    return CONSTANTS[published][corruption][severity - 1]
