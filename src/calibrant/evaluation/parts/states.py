"""Sums over batches of samples; their size does not grow with the number of samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from calibrant._math.dense_sums import CELL_SUMS, COUNT
from calibrant._math.errors import InputError
from calibrant.calibrators import Calibrator
from calibrant.evaluation.arguments import are_telling
from calibrant.evaluation.dense.reduce import Sums, num_cells, within_cells
from calibrant.evaluation.dense.states import GROUP_SUMS, POSITIONS, add_scores
from calibrant.evaluation.judging.groups import MEANS, Group, large_groups, ratios_of_event, rows_of_groups
from calibrant.evaluation.judging.reduce import ArmStatistics
from calibrant.evaluation.parts.dealing import fingerprint
from calibrant.evaluation.parts.ranked import (
    ClassScores,
    ExactScores,
    TopLabelScores,
    ranks_of,
    top_of,
    with_rank_statistics,
)
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.resampling.events import Events, Indices, Matrix
from calibrant.evaluation.result import GroupRow
from calibrant.evaluation.thresholds import WIDE
from calibrant.predictions.partitioned import Piece

MAX_GROUPS = 200


@dataclass(kw_only=True)
class BatchSums(Sums):
    """Sums of one arm: cells of confidence ``(G, K, 2, 8)`` and bins of classes ``(G, C, B, 3)``.

    Sums of two parts add up to those of both. The order in which parts are added is fixed, so the last bit
    does not depend on who made them.
    """

    num_batches: int
    num_samples: int
    """Upper bound on the number of test samples: few are all kept, more in fine cells."""
    clusters: bool = False
    """Whether batches are of clusters."""
    has_labels: bool = True
    """Whether true classes identify the samples, and not only which are right."""
    samples: int = 0
    """Equal for the same rows, labels and weights, in whatever order they are added."""
    dealing: int = 0
    """Equal for the same rows in the same batches."""
    groups: dict[str, Matrix] | None = field(default_factory=dict[str, Matrix], init=False)
    """Sums of the top label in each group ``(G, B, 2, 4)``; None where there are too many groups."""
    top: TopLabelScores = field(init=False)
    """Confidences; of two classes, the probability of class 1."""
    ranks: ClassScores | None = field(init=False)
    """All classes, or of two the event; None of very many, and of confidences alone."""
    _cells: Matrix = field(init=False)
    _classes: Matrix = field(init=False)

    unit: ClassVar[str] = "samples"
    no_ranks: ClassVar[str] = f"not computed: there are more than {WIDE:,} classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._cells = np.zeros((self.num_batches, num_cells(self.num_bins), 2, CELL_SUMS))
        self._classes = np.zeros((self.num_batches, self.num_classes, self.num_bins, 3))
        self.top = top_of(self.num_samples, self.num_batches)
        self.ranks = None
        columns = {"binary": 1, "multiclass": self.num_classes}.get(self.kind, WIDE + 1)
        if columns == 1 and isinstance(self.top, ExactScores):
            self.ranks = self.top
        elif columns <= WIDE:
            self.ranks = ranks_of(columns, self.num_samples, self.num_batches, clusters=self.clusters)

    @property
    def fingerprint(self) -> tuple[object, object]:
        return self.samples, self.dealing

    @property
    def telling(self) -> bool:
        return self.has_labels or are_telling(self.num_tested, int(self.agreement[1, 4]))

    @property
    def num_clusters(self) -> int:
        return len(self.filled)

    def add(
        self, piece: Piece, rows: Indices, batches: Indices, *, logits: bool, calibrator: Calibrator | None
    ) -> None:
        places = piece.first_row + rows
        self.samples ^= fingerprint(places, piece.truth[rows])
        if piece.weights is not None:
            self.samples ^= fingerprint(places, piece.weights[rows])
        self.dealing ^= fingerprint(places, batches)
        whole = len(rows) == len(piece.labels)
        names, codes = self._groups_of(piece, rows)
        found = np.zeros((len(names), self.num_batches, self.num_bins, 2, GROUP_SUMS))
        step = min(len(rows), max(1, POSITIONS * 4 // self.num_classes)) or 1
        apart = self.ranks is not None and self.ranks is not self.top
        all_read = apart and not self.event
        read = np.empty((step if all_read else 0, self.num_classes)), np.zeros((step, 2))
        for start in range(0, len(rows), step):
            part = slice(start, start + step) if whole else rows[start : start + step]
            labels, dealt = piece.labels[part], batches[start : start + step]
            weights = None if piece.weights is None else piece.weights[part]
            wrong = add_scores(
                piece.scores[part],
                labels,
                dealt,
                (self._cells, self._classes, self.agreement),
                logits=logits,
                calibrator=calibrator,
                weights=weights,
                groups=(codes[start : start + step], found),
                answers=self.kind == "top_label",
                read=read,
            )
            if wrong is not None:
                row = piece.first_row + int(rows[start + wrong.position])
                raise InputError(f"scores must be finite; row {row:,} of all holds {wrong.values}.")
            probs, events = (each[: len(labels)] for each in read)
            event = events[:, :1], 1 - events[:, 1].astype(np.int64)
            self.top.add(*event, weights, dealt)
            if apart and self.ranks is not None:
                self.ranks.add(*((probs, labels) if all_read else event), weights, dealt)
        self._add_groups(dict(zip(names, found, strict=True)))

    def _groups_of(self, piece: Piece, rows: Indices) -> tuple[list[str], Indices]:
        """Names of groups, and the group of each row; empty where none are kept."""
        if piece.groups is None or self.groups is None:
            return [], np.empty(0, np.int64)
        places: dict[str, int] = {}
        names = (piece.groups[row] for row in rows.tolist())
        codes = np.array([places.setdefault(name, len(places)) for name in names], np.int64)
        if len(places) > MAX_GROUPS:
            self.groups = None
            return [], np.empty(0, np.int64)
        return list(places), codes

    def _add_groups(self, found: dict[str, Matrix] | None) -> None:
        if found is None or self.groups is None:
            self.groups = None
            return
        for name, sums in found.items():
            if name in self.groups:
                self.groups[name] += sums
            else:
                self.groups[name] = sums.copy()
        if len(self.groups) > MAX_GROUPS:
            self.groups = None

    def merge(self, other: BatchSums) -> None:
        self._add_groups(other.groups)
        self.agreement += other.agreement
        self.samples ^= other.samples
        self.dealing ^= other.dealing
        self._cells += other._cells
        self._classes += other._classes
        self.top.merge(other.top)
        if self.ranks is not None and other.ranks is not None and self.ranks is not self.top:
            self.ranks.merge(other.ranks)

    @property
    def confidences(self) -> Matrix:
        return self._classes[..., 1].sum(axis=0)

    @property
    def outcomes(self) -> Matrix:
        return self._classes[..., 2].sum(axis=0)

    @property
    def filled(self) -> Indices:
        return np.flatnonzero(self._cells[..., COUNT].any(axis=(1, 2)))

    def rows(self) -> tuple[Indices, Indices, Matrix]:
        cells = self._cells[self.filled]
        batch, place = np.nonzero(cells[..., COUNT].reshape(len(cells), -1))
        return batch, place % 2, cells.reshape(len(cells), -1, CELL_SUMS)[batch, place]

    def cells(self) -> Indices:
        counts = self._cells[self.filled][..., COUNT]
        return np.nonzero(counts.reshape(len(counts), -1))[1] // 2

    def reduced(self, class_names: tuple[str, ...], metrics: Iterable[str]) -> ArmStatistics:
        reduced = super().reduced(class_names, metrics)
        return with_rank_statistics(reduced, self.top, self.ranks, self.filled, self.num_bins)

    def group_rows(self, reduced: ArmStatistics, procedure: Procedure) -> tuple[GroupRow, ...]:  # noqa: ARG002
        given = {name: each for name, each in (self.groups or {}).items() if each[..., 0].any()}
        large, other = large_groups({name: int(each[..., 2].sum()) for name, each in given.items()})
        small = [each for name, each in given.items() if name not in large]
        found = {name: each for name, each in given.items() if name in large}
        if small:
            found[other] = np.sum(small, axis=0)
        return rows_of_groups([_group(name, each) for name, each in sorted(found.items())], procedure)

    def of_classes(self) -> tuple[Matrix, Matrix]:
        classes = self._classes[self.filled]
        return classes[..., 2] - classes[..., 1], classes[..., 0]


def _group(name: str, sums: Matrix) -> Group:
    """Sums of a group: a row for each batch, bin and outcome with some weight."""
    batch, place, hit = np.nonzero(sums[..., 0])
    mass, stated, numbers, squares = sums[batch, place, hit].T
    clusters = np.unique(batch, return_inverse=True)[1].astype(np.int64)
    right = hit.astype(np.float64)
    edges = np.arange(sums.shape[1] + 1) / sums.shape[1]
    means = within_cells(stated / mass, place, edges)
    event = Events(means, right, mass, clusters, squares, numbers)
    ratios = ratios_of_event(event)
    reduced = ArmStatistics(
        quantities=MEANS,
        weights=mass,
        ratios=ratios,
        events={"": (event,)},
        values={key: float(above.sum() / below.sum()) for key, (above, below) in ratios.items()},
        reasons={},
        influences={},
        clusters=clusters,
    )
    return Group(name, reduced, int(sums[..., 2].sum()))
