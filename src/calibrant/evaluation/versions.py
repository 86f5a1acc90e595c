"""The versions that a result was made with."""

from __future__ import annotations

import platform

import numpy as np
import torch

from calibrant import __version__


def versions() -> dict[str, str]:
    """The versions of everything that decides the bits."""
    return {
        "calibrant": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
