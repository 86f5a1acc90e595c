"""Order of the probabilities: all samples of a small table, fine cells of a large one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from calibrant._math import fine_cells
from calibrant.evaluation.judging.reduce import ArmStatistics
from calibrant.evaluation.quantities import AUROC
from calibrant.evaluation.quantity import EVENT, EventError, EventInfluence
from calibrant.evaluation.resampling.event_cells import BIN_KINDS, bin_matrix
from calibrant.evaluation.resampling.events import (
    Events,
    Indices,
    Matrix,
    Vector,
    auroc_influence,
    cluster_totals,
)

MOST_EVENTS = 1 << 20  # samples, of whose top labels all are kept: 8 MiB
MOST_KEPT = 1 << 22  # probabilities of all classes: 32 MiB
EVENT_BITS, CLASS_BITS, FEWEST_BITS = 13, 7, 3
ROOM = 1 << 21  # bytes of the cells of all classes, if the fewest bits fit
ENOUGH_BATCHES, FEWEST_BATCHES = 64, 24  # to tell how far areas vary
MOST_ROOM = 1 << 25  # bytes of their cells; none are kept beyond
NO_INTERVAL = "no interval: there are too many classes to keep their order for each batch"


class Areas(NamedTuple):
    """AUROC of each column (None if undefined), and each batch's influence on their mean."""

    areas: tuple[float | None, ...]
    totals: Vector | None  # (F,) of those with samples; None if not known


@dataclass(kw_only=True)
class ExactScores:
    """All samples, in the order of the parts."""

    num_batches: int
    _parts: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    """Probabilities, labels, weights if any, and batches."""

    def add(self, probs: Matrix, labels: Indices, weights: Vector | None, batches: Indices) -> None:
        counts = slice(None) if weights is None else weights > 0
        mass = None if weights is None else weights[counts]
        found = probs[counts].copy(), labels[counts].astype(np.int32), mass, batches[counts].astype(np.int16)
        self._parts.append(found)

    def merge(self, other: Any) -> None:
        self._parts += other._parts

    def _whole(self, place: int) -> Any:
        return np.concatenate([each[place] for each in self._parts])

    @property
    def weights(self) -> Vector | None:
        return None if not self._parts or self._parts[0][2] is None else self._whole(2)

    def areas(self, filled: Indices) -> Areas:
        """The areas, computed as in memory; ``filled`` are the batches with samples."""
        probs, labels, weights = self._whole(0), self._whole(1), self.weights
        influence, areas = np.zeros(len(probs)), list[float | None]()
        for column in range(probs.shape[1]):
            found = auroc_influence(np.ascontiguousarray(probs[:, column]), labels == column, weights)
            areas.append(None if found is None else found[0])
            influence += 0.0 if found is None else found[1]
        mass = np.ones(len(probs)) if weights is None else weights
        influence *= mass / mass.sum() / max(1, len(areas) - areas.count(None))
        totals = np.bincount(self._whole(3), influence, self.num_batches)
        return Areas(tuple(areas), totals[filled].astype(np.float64))

    def event(self, *, top: bool) -> Events:
        stated, happened = self._whole(0)[:, 0], self._whole(1) == 0
        if top:
            stated, happened = np.maximum(stated, 1 - stated), (stated > 0.5) == happened
        return Events(stated, happened.astype(np.float64), self.weights)


def ordered_error(event: Events, error: EventError, num_bins: int) -> float | None:
    """The error of samples, or of cells, each as two ties with outcomes 1 and 0; these are shared if cut.

    None if bins kept elsewhere give it, or samples are needed.
    """
    kernel, in_cells = error.kernel, event.cells is not None
    if (kernel is None and in_cells) or (kernel is not None and BIN_KINDS[kernel] == "width"):
        return None
    if kernel == "mass l1" and in_cells:
        gaps = bin_matrix(event, num_bins)[num_bins:] @ (event.outcomes - event.confidences)
        return float(np.abs(gaps).sum() / event.mass.sum())
    return error.value(event.confidences, event.outcomes, event.weights, num_bins)


@dataclass(kw_only=True)
class BinnedScores:
    """An event in cells of :mod:`calibrant._math.fine_cells`."""

    bits: int = EVENT_BITS
    weighted: bool = False
    cells: Matrix = field(init=False)

    def __post_init__(self) -> None:
        self.cells = np.zeros((fine_cells.num_fine(self.bits), fine_cells.CELL_SUMS))

    def add(self, probs: Matrix, labels: Indices, weights: Vector | None, _batches: Indices) -> None:
        self.weighted |= weights is not None
        mass = np.ones(len(labels)) if weights is None else weights
        fine_cells.add_to_cells(probs[:, 0], (labels == 0).astype(np.int64), mass, self.bits, self.cells)

    def merge(self, other: Any) -> None:
        self.weighted |= other.weighted
        self.cells += other.cells

    def __getstate__(self) -> dict[str, Any]:
        filled = np.flatnonzero(self.cells[:, fine_cells.MASS])
        return vars(self) | {"cells": (filled.astype(np.int32), self.cells[filled])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.cells = np.zeros((fine_cells.num_fine(self.bits), fine_cells.CELL_SUMS))
        filled, values = state["cells"]
        self.cells[filled] = values

    def event(self, *, top: bool) -> Events:
        cells = fine_cells.folded(self.cells) if top else self.cells
        cells = cells[cells[:, fine_cells.MASS] > 0]
        mass, stated, happened = cells.T
        weights = np.concatenate([happened, np.maximum(mass - happened, 0.0)])
        some = weights > 0
        means, weights = np.tile(np.clip(stated / mass, 0.0, 1.0), 2)[some], weights[some]
        numbers = None if self.weighted else weights
        outcomes = np.repeat([1.0, 0.0], len(mass))[some]
        return Events(means, outcomes, weights, numbers=numbers, cells=means)


@dataclass(kw_only=True)
class BinnedClassScores:
    """Mass and outcomes ``(2, D, K)`` in cells of each column, and in fewer cells for some batches."""

    num_columns: int
    num_batches: int
    clusters: bool  # whether batches hold clusters; then all are used, as there may be few
    of_event: int = EVENT_BITS  # bits of a single column
    every: int = field(init=False)  # one batch in this many is used
    bits: int = field(init=False)
    cells: Matrix = field(init=False)
    of_groups: Matrix = field(init=False)

    def __post_init__(self) -> None:
        found = fine_cells.bits_for(ROOM // (8 * self.num_columns), CLASS_BITS)
        self.bits = self.of_event if self.num_columns == 1 else max(FEWEST_BITS, found)
        self.cells = np.zeros((2, self.num_columns, fine_cells.num_fine(self.bits)))
        size = 16 * self.num_columns * fine_cells.NUM_COARSE
        most = self.num_batches if self.num_columns == 1 else ENOUGH_BATCHES
        groups = min(self.num_batches, most, max(FEWEST_BATCHES, ROOM // size))
        self.every = 1 if self.clusters else self.num_batches // groups
        groups = groups if groups * size <= MOST_ROOM else 0
        self.of_groups = np.zeros((2, groups, self.num_columns, fine_cells.NUM_COARSE))

    def add(self, probs: Matrix, labels: Indices, weights: Vector | None, batches: Indices) -> None:
        mass = np.ones(len(labels)) if weights is None else weights
        fine_cells.rank_in_cells(
            probs, labels, mass, batches, self.every, self.bits, self.cells, self.of_groups
        )

    def merge(self, other: Any) -> None:
        self.cells += other.cells
        self.of_groups += other.of_groups

    def areas(self, filled: Indices) -> Areas:
        """AUROC from cells; ties within one count one half, or by neighbouring slopes if cells are wide."""
        coarse, num_groups = fine_cells.coarse_of(self.bits), self.of_groups.shape[1]
        areas, totals = list[float | None](), np.zeros(num_groups)
        spread = np.zeros(2)  # of the influences, and of their means in coarse cells
        for column in range(self.num_columns):
            held = np.flatnonzero(self.cells[0, column])
            mass, happened = self.cells[:, column, held]
            sides = happened, np.maximum(mass - happened, 0.0)
            sizes = [float(side.sum()) for side in sides]
            if not (sizes[0] > 0 and sizes[1] > 0):
                areas.append(None)
                continue
            below = (np.cumsum(sides[1]) - sides[1] / 2) / sizes[1]
            above = 1 - (np.cumsum(sides[0]) - sides[0] / 2) / sizes[0]
            area = float(sides[0] @ below) / sizes[0]
            if self.bits < CLASS_BITS:
                area += _within(held, *sides) / sizes[0] / sizes[1]
            areas.append(area)
            masses, hits = self.of_groups[:, :, column]  # (G, M)
            for side, right, total, dealt in zip(
                sides, (below, above), sizes, (hits, masses - hits), strict=True
            ):
                influence = (right - area) / total
                sums = np.bincount(coarse[held], side * influence, fine_cells.NUM_COARSE)
                counts = np.bincount(coarse[held], side, fine_cells.NUM_COARSE)
                means = np.divide(sums, counts, out=np.zeros(fine_cells.NUM_COARSE), where=counts > 0)
                totals += dealt @ means
                spread += [side @ influence**2, counts @ means**2]
        if not num_groups:
            return Areas(tuple(areas), None)
        totals *= np.sqrt(spread[0] / spread[1]) if spread[1] > 0 else 1.0
        totals /= max(1, len(areas) - areas.count(None))
        groups = filled // self.every % num_groups
        among = np.unique(filled // self.every) % num_groups
        share = np.sqrt(np.bincount(among, minlength=num_groups))  # batches of a group, as if independent
        return Areas(tuple(areas), totals[groups] / share[groups])


def _within(held: Indices, happened: Vector, others: Vector) -> float:
    """AUROC missed by counting a cell's samples as tied, if densities are linear within it.

    With slopes a and b, as shares of the cell's mass, the first lies above the second with probability
    1/2 + (a - b) / 12; slopes are half the differences of the neighbours, and all but two terms cancel.
    """
    beside = np.diff(held) == 1
    rising, falling = others[:-1] * happened[1:], others[1:] * happened[:-1]
    return float((rising - falling)[beside].sum()) / 12


TopLabelScores: TypeAlias = ExactScores | BinnedScores  # one event: its probability, or the confidence
ClassScores: TypeAlias = ExactScores | BinnedClassScores  # of all classes ``(P, D)``


def top_of(num_samples: int, num_batches: int) -> TopLabelScores:
    return ExactScores(num_batches=num_batches) if num_samples <= MOST_EVENTS else BinnedScores()


def ranks_of(num_columns: int, num_samples: int, num_batches: int, *, clusters: bool) -> ClassScores:
    if num_samples * num_columns <= MOST_KEPT:
        return ExactScores(num_batches=num_batches)
    return BinnedClassScores(num_columns=num_columns, num_batches=num_batches, clusters=clusters)


def with_rank_statistics(
    reduced: ArmStatistics, top: TopLabelScores, ranks: ClassScores | None, filled: Indices, num_bins: int
) -> ArmStatistics:
    """Add the values that need the order of scores: adaptive and smooth errors, slope, intercept, AUROC."""
    events = {prefix: top.event(top=not prefix and EVENT in reduced.events) for prefix in reduced.events}
    values, reasons, influences = {**reduced.values}, {**reduced.reasons}, {**reduced.influences}
    for each in reduced.quantities:
        key, event = each.key, events[each.prefix]
        match each.computed:
            case EventError() as error if (found := ordered_error(event, error, num_bins)) is not None:
                values[key] = found
            case EventInfluence() as parameter if key in values:
                line = parameter.value(event)
                if isinstance(line, str):
                    reasons[key] = line
                    del values[key], influences[key]
                else:
                    values[key] = line[0]
            case _:
                pass
    reduced = replace(reduced, values=values, reasons=reasons, influences=influences)
    return reduced if ranks is None else _with_areas(reduced, ranks, filled)


def _with_areas(reduced: ArmStatistics, ranks: ClassScores, filled: Indices) -> ArmStatistics:
    areas, totals = ranks.areas(filled)
    known = [area for area in areas if area is not None]
    if not known:
        return replace(reduced, reasons=reduced.reasons | {AUROC.key: AUROC.undefined or ""})
    influences, no_interval = reduced.influences, {**reduced.no_interval}
    if totals is None:
        no_interval[AUROC.key] = NO_INTERVAL
    else:
        influences = influences | {AUROC.key: _spread(totals, reduced)}
    of_each = areas if len(areas) == len(reduced.classes) else areas * len(reduced.classes)
    return replace(
        reduced,
        values=reduced.values | {AUROC.key: float(np.mean(known))},
        reasons={key: why for key, why in reduced.reasons.items() if key != AUROC.key},
        influences=influences,
        no_interval=no_interval,
        classes=tuple(replace(row, auroc=area) for row, area in zip(reduced.classes, of_each, strict=True)),
    )


def _spread(totals: Vector, reduced: ArmStatistics) -> Vector:
    """Influence of each row, from the totals of batches."""
    weights, codes = reduced.mass, reduced.codes
    return (totals / cluster_totals(weights, codes))[codes] * weights.sum()
