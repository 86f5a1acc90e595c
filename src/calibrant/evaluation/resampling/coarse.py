"""The smooth error over fewer points, for a search that asks for it some hundred times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calibrant.evaluation.resampling.event_cells import Cells, EventCells, joined, smooth_errors
from calibrant.evaluation.resampling.events import Matrix
from calibrant.evaluation.resampling.null import NullDraws, cells_of

NUM_POINTS = 64


def coarse_smooth_noise(places: Sequence[EventCells], drawn: Sequence[NullDraws]) -> tuple[Cells, Matrix]:
    """As `noise_of` for the smooth error, with more than 64 points gathered in cells of width 1/64.

    A residual moves by at most 1/64, and a gap, which is constant in a bin, keeps its mean. The error changes
    by about a hundredth of its noise, and the search takes a fifth of the time.
    """
    cells, noise = zip(*(_gathered(*pair) for pair in zip(places, drawn, strict=True)), strict=True)
    return joined(cells), np.ascontiguousarray(np.concatenate(noise, axis=1))


def _gathered(place: EventCells, drawn: NullDraws) -> tuple[Cells, Matrix]:
    fine, noise, points = (
        cells_of(place, drawn, "smooth"),
        drawn.sums[:, place.rows("score")],
        place.scores.points,
    )
    if len(points) <= NUM_POINTS:
        return fine, noise
    _, starts, index = np.unique((points * NUM_POINTS).astype(int), return_index=True, return_inverse=True)
    mass = np.bincount(fine.cell, fine.mass, len(points))
    total = np.add.reduceat(mass, starts)
    moved = np.add.reduceat(mass * points, starts)
    centres = np.divide(moved, total, out=points[starts], where=total > 0)
    cells = replace(fine, cell=index[fine.cell], num_cells=len(starts), error=smooth_errors(centres))
    return cells, np.add.reduceat(noise, starts, axis=1)
