"""The dataset bundled with calibrant."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calibrant._math.shapes import Float, Int


def read_digits() -> tuple[Float[np.ndarray, "N P"], Int[np.ndarray, " N"]]:
    """Return 1797 images of handwritten digits, 64 pixels from 0 to 16, and their digits.

    References:
        Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits", UCI ML Repository 1998,
        doi:10.24432/C50P49 (CC BY 4.0); the test part, as in scikit-learn's ``load_digits``.

    Example:
        >>> pixels, labels = read_digits()
        >>> pixels.shape, pixels.max(), labels[:3]
        ((1797, 64), np.float64(16.0), array([0, 1, 2]))
    """
    with np.load(Path(__file__).with_name("digits.npz"), allow_pickle=False) as archive:
        return archive["pixels"].astype(np.float64), archive["labels"].astype(np.int64)
