"""Yes/no events: what was stated and what happened, and how arrays of them are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.binning import binned, width_bin_index

Vector: TypeAlias = NDArray[np.float64]  # (N,) over samples or (R,) over resamples
Matrix: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Events:
    """Stated probabilities of yes/no events and what happened: the top label is right, or a class occurs."""

    confidences: Vector
    outcomes: Vector  # 0 or 1
    weights: Vector | None = None
    clusters: Indices | None = None
    """The number of each sample's cluster; ``None`` where the samples are independent."""
    squares: Vector | None = None
    """Of rows that stand for many samples of a cluster, as of pixels: their squared weights, summed."""
    numbers: Vector | None = None
    """Of such rows: how many samples."""
    cells: Vector | None = None
    """Of such rows: the mean confidence of the cell, where rows hold several samples, else their own. Bins of
    equal mass take equal ones for ties: hits and misses of a cell differ in means, but not in their place."""

    @property
    def places(self) -> Vector:
        """Order of the rows in bins of equal mass."""
        return self.confidences if self.cells is None else self.cells

    @property
    def counted(self) -> bool:
        """True if a row stands for many samples."""
        return self.squares is not None

    def part(self, rows: Any) -> Events:
        """Some of the samples; clusters are numbered anew, from 0 without gaps."""
        clusters = None
        if self.clusters is not None:
            clusters = np.unique(self.clusters[rows], return_inverse=True)[1].astype(np.int64)
        weights, squares, numbers, cells = (
            None if each is None else each[rows]
            for each in (self.weights, self.squares, self.numbers, self.cells)
        )
        return Events(self.confidences[rows], self.outcomes[rows], weights, clusters, squares, numbers, cells)


def width_bins(confidences: Vector, num_bins: int) -> Indices:
    """Bin of equal width of each confidence."""
    return width_bin_index(torch.from_numpy(confidences), num_bins).numpy()


def pool(events: tuple[Events, ...]) -> Events:
    """The events of all labels as one."""
    weights, squares, numbers, cells = (
        [each for event in events if (each := getattr(event, name)) is not None]
        for name in ("weights", "squares", "numbers", "cells")
    )
    clusters = [event.clusters for event in events if event.clusters is not None]
    return Events(
        np.concatenate([event.confidences for event in events]),
        np.concatenate([event.outcomes for event in events]),
        np.concatenate(weights) if weights else None,
        np.concatenate(clusters) if clusters else None,
        np.concatenate(squares) if squares else None,
        np.concatenate(numbers) if numbers else None,
        np.concatenate(cells) if cells else None,
    )


def binned_error(
    confidences: Vector,
    outcomes: Vector,
    weights: Vector | None,
    *,
    num_bins: int,
    binning: Literal["width", "mass"],
    norm: Literal["l1", "l2", "max"],
) -> float:
    """Calibration error over bins."""
    mass = None if weights is None else torch.from_numpy(weights)
    stated, happened = torch.from_numpy(confidences), torch.from_numpy(outcomes)
    sums = binned(stated, happened, num_bins=num_bins, binning=binning, weights=mass)
    return float(sums.calibration_error(norm))
