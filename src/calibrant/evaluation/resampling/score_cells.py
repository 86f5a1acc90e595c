"""Scores gathered at few points, so that the smooth error of a thousand resamples costs little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUM_CELLS = 256
MOST_POINTS = 2 * NUM_CELLS


@dataclass(frozen=True)
class ScoreCells:
    """Where the scores lie, as far as the smooth calibration error of resamples and draws is concerned.

    Up to 512 different scores each stands for itself, and nothing is lost. More are gathered in cells of
    width 1/256, each at its mean score. As the functions of the smooth error are 1-Lipschitz, this moves it
    by at most the mean of the absolute residual times the distance to the cell's mean; residuals of both
    signs lie in a cell, so that what is seen, from 3000 to 300 000 samples, is less than a hundredth of the
    noise that resamples and draws are there to show.
    """

    points: NDArray[np.float64]  # ascending, ``(K,)``
    index: NDArray[np.int32]  # point of each sample, ``(N,)``

    @classmethod
    def of(cls, scores: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> ScoreCells:
        """From scores ``(N,)`` in [0, 1] and weights."""
        points, index = np.unique(scores, return_inverse=True)
        if len(points) > MOST_POINTS:
            cell = np.minimum((points * NUM_CELLS).astype(np.int64), NUM_CELLS - 1)
            filled, place = np.unique(cell, return_inverse=True)
            index = place[index]
            counts = np.bincount(index, minlength=len(filled))
            mass = counts if weights is None else np.bincount(index, weights, len(filled))
            sums = np.bincount(index, scores if weights is None else weights * scores, len(filled))
            plain = np.bincount(index, scores, len(filled)) / counts  # for cells without weight
            points = np.divide(sums, mass, out=plain, where=mass > 0)
        return cls(points, index.astype(np.int32))

    @property
    def matrix(self) -> Any:
        """Sparse ``(K, N)`` of ones: sums over the samples of every point."""
        from scipy.sparse import csr_array

        count = len(self.index)
        return csr_array((np.ones(count), (self.index, np.arange(count))), shape=(len(self.points), count))
