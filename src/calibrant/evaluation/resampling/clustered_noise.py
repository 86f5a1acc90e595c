"""Residual sums with the noise of clusters: draws under calibration, and with any gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.evaluation.resampling.clusters import Clustered, indicator, signs
from calibrant.evaluation.resampling.event_cells import BinKind, BinnedEvents, ResidualSums
from calibrant.evaluation.resampling.events import Indices, Matrix, Vector


class SignedSums:
    """Sparse residuals ``(M, G)`` with a sign per cluster, filled up to independent ``variance`` ``(M,)``."""

    def __init__(self, residuals: Any, variance: Vector, seed: tuple[int, ...]) -> None:
        self._residuals = residuals
        own = np.asarray(residuals.power(2).sum(axis=1)).ravel()
        self._lacking = np.sqrt(1 - np.divide(own, variance, out=np.ones_like(own), where=variance > own))
        self._rng = np.random.default_rng((*seed[:2], 7))  # the same signs for all labels of a sample

    def draw(self, independent: Matrix) -> tuple[Matrix, Matrix]:
        """Residual sums ``(M, r)``, given those of independent draws, and the signs ``(G, r)``."""
        drawn = signs(self._rng, self._residuals.shape[1], independent.shape[1])
        return self._residuals @ drawn + self._lacking[:, None] * independent, drawn


class EventSigns:
    """`SignedSums` of the bins and cells of events; keeps the first draws for an interval."""

    def __init__(self, cells: BinnedEvents, codes: Indices, seed: tuple[int, ...], num_kept: int) -> None:
        events = cells.events
        self._cells = cells
        of_clusters = indicator(codes, events.outcomes - events.confidences)
        variance = cells.squares(cells.matrix) @ (events.confidences * (1 - events.confidences))
        self._signed = SignedSums((cells.matrix @ of_clusters).tocsr(), variance, seed)
        self._residuals = {place: (each @ of_clusters).tocsr() for place, each in cells.entries.items()}
        self._masses = {place: (each @ indicator(codes)).tocsr() for place, each in cells.entries.items()}
        self._drawn = {place: np.empty((num_kept, each.shape[0])) for place, each in self._masses.items()}
        self._kept, self._num_kept = 0, num_kept

    def draw(self, independent: Matrix) -> Matrix:
        """Residual sums ``(2B + K, r)``, given those of independent draws."""
        sums, drawn = self._signed.draw(independent)
        stop = min(self._kept + drawn.shape[1], self._num_kept)
        for place, masses in self._masses.items():
            part = drawn[:, : stop - self._kept]
            self._drawn[place][self._kept : stop] = (masses @ part).T / self._cells.total
        self._kept = stop
        return sums

    def clustered(self) -> Mapping[BinKind, Clustered]:
        total = self._cells.total
        bins: dict[BinKind, BinKind] = {"width": "width", "mass": "mass", "score": "width"}  # of the gaps
        return {
            place: Clustered.of(self._residuals[of] / total, self._masses[of] / total, self._drawn[place])
            for place, of in bins.items()
        }


def clustered_sums(cells: ResidualSums, noise: Matrix, gaps: Vector, extra: NDArray[np.float32]) -> Matrix:
    """Residual sums ``(R, M)`` with these gaps: the signs' sums of residuals less gaps.

    ``noise`` holds the sums without gaps; ``extra`` adds the missing variance of independent samples.
    """
    if cells.clustered is None:
        raise RuntimeError("these cells know of no clusters")
    less = cells.clustered.taken(gaps, cells.bin_mass)
    taken = cells.clustered.masses[: len(noise)] * less[cells.bin]
    if not cells.bins_alone:
        starts = np.flatnonzero(np.append(True, np.diff(cells.cell) != 0))
        taken = np.add.reduceat(taken, starts, axis=1)
    sums = noise - taken
    lacking = np.maximum(cells.variances(gaps) - np.einsum("rm,rm->m", sums, sums) / len(sums), 0.0)
    if (lacking > 0).any():
        sums += np.sqrt(lacking) * extra
    return sums + cells.sums(gaps)
