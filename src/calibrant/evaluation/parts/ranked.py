"""What is known of the order of probabilities: all samples of a small table, fine cells of a large one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.mass_sketch import shared_out
from calibrant.evaluation.dense.states import Tensor5
from calibrant.evaluation.quantities.quantity import EventError
from calibrant.evaluation.resampling.event_cells import BIN_KINDS
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector
from calibrant.evaluation.resampling.ranking import auroc_influence

MOST_KEPT = 1 << 22  # probabilities: 32 MiB
MOST_EVENTS = 1 << 20  # samples, of whose top labels all are kept
EVENT_BITS, CLASS_BITS, FEWEST_BITS = 13, 10, 3
ROOM = 1 << 25  # bytes of the cells of all classes, where the fewest bits fit
ROOM_OF_BATCHES = 1 << 24  # or as much as the fewest need, up to twice that
FEWEST_BATCHES = 24


class Areas(NamedTuple):
    """Under the ROC curve of each column, if it has one, and by how much each batch moves their mean."""

    areas: tuple[float | None, ...]
    totals: Vector | None  # (F,) of those with samples; None where it is not known


@dataclass(kw_only=True)
class Kept:
    """All samples, in the order of the parts."""

    num_batches: int
    _probs: list[Matrix] = field(default_factory=list[Matrix])
    _labels: list[NDArray[np.int32]] = field(default_factory=list[NDArray[np.int32]])
    _weights: list[Vector] = field(default_factory=list[Vector])
    _batches: list[NDArray[np.int16]] = field(default_factory=list[NDArray[np.int16]])

    def add(self, probs: Matrix, labels: Indices, weights: Vector | None, batches: Indices) -> None:
        """Add samples; those without weight do not count."""
        counts = slice(None) if weights is None else weights > 0
        self._probs.append(probs[counts].copy())
        self._labels.append(labels[counts].astype(np.int32))
        self._batches.append(batches[counts].astype(np.int16))
        if weights is not None:
            self._weights.append(weights[counts])

    def merge(self, other: Ranked) -> None:
        """Add those of another part behind these."""
        if not isinstance(other, Kept):
            raise TypeError("parts of a table are kept alike")
        self._probs += other._probs
        self._labels += other._labels
        self._weights += other._weights
        self._batches += other._batches

    @property
    def weights(self) -> Vector | None:
        """Of the samples ``(N,)``."""
        return np.concatenate(self._weights) if self._weights else None

    def areas(self, filled: Indices) -> Areas:
        """As in memory; ``filled`` are the batches with samples."""
        probs, labels, weights = np.concatenate(self._probs), np.concatenate(self._labels), self.weights
        influence, areas = np.zeros(len(probs)), list[float | None]()
        for column in range(probs.shape[1]):
            found = auroc_influence(np.ascontiguousarray(probs[:, column]), labels == column, weights)
            areas.append(None if found is None else found[0])
            influence += 0.0 if found is None else found[1]
        mass = np.ones(len(probs)) if weights is None else weights
        influence *= mass / mass.sum() / max(1, len(areas) - areas.count(None))
        totals = np.bincount(np.concatenate(self._batches), influence, self.num_batches)
        return Areas(tuple(areas), totals[filled].astype(np.float64))

    def column(self, *, top: bool) -> KeptColumn:
        """The first column."""
        stated = np.concatenate(self._probs)[:, 0]
        happened = np.concatenate(self._labels) == 0
        if top:
            stated, happened = np.maximum(stated, 1 - stated), (stated > 0.5) == happened
        return KeptColumn(Events(stated, happened.astype(np.float64), self.weights))


@dataclass(frozen=True)
class KeptColumn:
    """An event of which all samples are kept."""

    events: Events

    def error(self, error: EventError, num_bins: int) -> float | None:
        """As in memory; what lies in bins of equal width is known from their sums."""
        if error.kernel is not None and BIN_KINDS[error.kernel] == "width":
            return None
        event = self.events
        return error.value(event.confidences, event.outcomes, event.weights, num_bins)


@dataclass(kw_only=True)
class Celled:
    """Cells of :mod:`calibrant._math.fine_cells`; for areas also some of each batch."""

    num_columns: int
    num_batches: int
    most_bits: int
    of_areas: bool
    """Whether areas are wanted, of which batches are resampled."""
    weighted: bool = False
    bits: int = field(init=False)
    cells: Tensor5 = field(init=False)
    _of_groups: Tensor5 = field(init=False)

    def __post_init__(self) -> None:
        from calibrant._math.fine_cells import CELL_SUMS, bits_for, num_fine  # compiled

        found = bits_for(ROOM // (8 * CELL_SUMS * self.num_columns), self.most_bits)
        self.bits = max(FEWEST_BITS, found)
        self.cells = np.zeros((self.num_columns, num_fine(self.bits), CELL_SUMS))
        size = 16 * self.num_columns * num_fine(0)
        groups = min(self.num_batches, max(FEWEST_BATCHES, ROOM_OF_BATCHES // size))
        groups = groups if self.of_areas and groups * size <= 2 * ROOM_OF_BATCHES else 0
        self._of_groups = np.zeros((groups, self.num_columns, num_fine(0), 2))

    def add(self, probs: Matrix, labels: Indices, weights: Vector | None, batches: Indices) -> None:
        """Add samples."""
        from calibrant._math.fine_cells import add_to_cells  # compiled

        self.weighted |= weights is not None
        mass = np.ones(len(labels)) if weights is None else weights
        add_to_cells(probs, labels, mass, batches, self.bits, self.cells, self._of_groups)

    def merge(self, other: Ranked) -> None:
        """Add those of another part."""
        if not isinstance(other, Celled):
            raise TypeError("parts of a table are kept alike")
        self.weighted |= other.weighted
        self.cells += other.cells
        self._of_groups += other._of_groups

    def __getstate__(self) -> dict[str, Any]:
        filled = np.flatnonzero(self.cells[..., 0])
        values = self.cells.reshape(-1, self.cells.shape[-1])[filled]
        return vars(self) | {"cells": (self.cells.shape, filled.astype(np.int32), values)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        shape, filled, values = state.pop("cells")
        vars(self).update(state)
        self.cells = np.zeros(shape)
        self.cells.reshape(-1, shape[-1])[filled] = values

    def areas(self, filled: Indices) -> Areas:
        """Ties of a cell count one half; within a halving a batch is spread as all samples are."""
        from calibrant._math.fine_cells import HAPPENED, MASS, coarse_of, num_fine

        coarse, size = coarse_of(self.bits), num_fine(0)
        num_groups = len(self._of_groups)
        areas, totals = list[float | None](), np.zeros(num_groups)
        for cells, of_groups in zip(self.cells, self._of_groups.swapaxes(0, 1), strict=True):
            held = np.flatnonzero(cells[:, MASS])
            place, happened = coarse[held], cells[held, HAPPENED]
            sides = happened, np.maximum(cells[held, MASS] - happened, 0.0)
            sizes = [float(side.sum()) for side in sides]
            if not (sizes[0] > 0 and sizes[1] > 0):
                areas.append(None)
                continue
            below = (np.cumsum(sides[1]) - sides[1] / 2) / sizes[1]
            above = 1 - (np.cumsum(sides[0]) - sides[0] / 2) / sizes[0]
            area = float(sides[0] @ below) / sizes[0]
            areas.append(area)
            if not num_groups:
                continue
            dealt = of_groups[..., 1], of_groups[..., 0] - of_groups[..., 1]  # (G, M)
            for side, right, total, of_group in zip(sides, (below, above), sizes, dealt, strict=True):
                mass = np.bincount(place, side, size)
                sums = np.bincount(place, side * right, size)
                means = np.divide(sums, mass, out=np.full(size, area), where=mass > 0)
                totals += of_group @ (means - area) / total
        if not num_groups:
            return Areas(tuple(areas), None)
        totals /= max(1, len(areas) - areas.count(None))
        groups = filled % num_groups
        share = np.sqrt(np.bincount(groups, minlength=num_groups))  # batches of a group, as if independent
        return Areas(tuple(areas), totals[groups] / share[groups])

    def column(self, *, top: bool) -> CelledColumn:
        """The first column."""
        from calibrant._math.fine_cells import folded

        cells = folded(self.cells[0]) if top else self.cells[0]
        return CelledColumn(cells[cells[:, 0] > 0], whole=not self.weighted)


@dataclass(frozen=True)
class CelledColumn:
    """An event of which cells are known."""

    cells: Matrix  # (K, 3), those that hold samples
    whole: bool
    """Whether each sample counts one."""

    @cached_property
    def events(self) -> Events:
        """Each cell as two ties: what happened, and what did not."""
        mass, stated, happened = self.cells.T
        means = np.clip(stated / mass, 0.0, 1.0)
        weights = np.concatenate([happened, np.maximum(mass - happened, 0.0)])
        outcomes = np.repeat([1.0, 0.0], len(mass))
        some = weights > 0
        return Events(np.tile(means, 2)[some], outcomes[some], weights[some])

    def error(self, error: EventError, num_bins: int) -> float | None:
        """Cells that the edge of a bin divides are shared out; None where samples are needed, or bins do."""
        if error.kernel is None or BIN_KINDS[error.kernel] == "width":
            return None
        if error.kernel == "mass l1":
            mass, stated, happened = (torch.from_numpy(np.ascontiguousarray(each)) for each in self.cells.T)
            gaps = shared_out(mass, stated - happened, num_bins=num_bins, whole=self.whole)
            return float(gaps.abs().sum() / mass.sum())
        event = self.events
        return error.value(event.confidences, event.outcomes, event.weights, num_bins)


Ranked: TypeAlias = Kept | Celled
"""Columns of probabilities, of which that of the label happens."""
Column: TypeAlias = KeptColumn | CelledColumn


def ranked(num_columns: int, num_samples: int, num_batches: int, *, of_areas: bool) -> Ranked:
    """All of so many samples are kept, or cells; what is kept depends on the table's size alone."""
    if num_samples * num_columns <= MOST_KEPT and (num_columns > 1 or num_samples <= MOST_EVENTS):
        return Kept(num_batches=num_batches)
    bits = EVENT_BITS if num_columns == 1 else CLASS_BITS
    return Celled(num_columns=num_columns, num_batches=num_batches, most_bits=bits, of_areas=of_areas)
