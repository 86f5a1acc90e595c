"""Sums over batches of samples, whose size does not grow with their number."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.binning import width_edges
from calibrant._math.dense_sums import CELL_SUMS, COUNT, INFINITE
from calibrant._math.errors import InputError
from calibrant._math.text_form import plural
from calibrant.calibrators import Calibrator
from calibrant.evaluation.arguments import WIDE, Procedure, are_telling
from calibrant.evaluation.dense.sums import (
    GROUP_SUMS,
    POSITIONS,
    Sums,
    SumsOfParts,
    add_scores,
    num_cells,
    within_cells,
)
from calibrant.evaluation.judging.groups import Group, group_of, large_groups, rows_of_groups
from calibrant.evaluation.judging.reduce import ArmStatistics, Ratios, mean_error
from calibrant.evaluation.parts import ranked
from calibrant.evaluation.quantities import ECE, quantities
from calibrant.evaluation.quantity import EVENT, ClassErrors, ClassRanks, EventError, Quantity, Ratio
from calibrant.evaluation.resampling.events import (
    Events,
    Indices,
    Matrix,
    Vector,
    cluster_totals,
    influence_totals,
)
from calibrant.evaluation.result import GroupRow
from calibrant.predictions.partitioned import Part, PartitionedPredictions, Piece

Hashes: TypeAlias = NDArray[np.uint64]
MOST_BATCHES, LEAST_BATCHES = 256, 32
ROOM = 1 << 26  # bytes of the sums of classes
FEW = 1 << 16  # rows, which are put in a random order: 512 KiB


def hashed(numbers: Indices) -> Hashes:
    """SplitMix64: whole numbers, however regular, become as good as random ones.

    Example:
        >>> ((hashed(np.arange(8)) >> np.uint64(32)) % np.uint64(10)).tolist()
        [3, 4, 4, 4, 2, 2, 8, 6]
    """
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def fingerprint(rows: Indices, held: Indices | Vector) -> int:
    """An order-independent hash of the values in rows."""
    bits = held.view(np.uint64) if held.dtype == np.float64 else held.astype(np.uint64)
    mixed = (rows.astype(np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * (2 * bits + 1)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
    return int(np.bitwise_xor.reduce(mixed ^ (mixed >> np.uint64(31)))) if len(rows) else 0


Half = Literal["fit", "test"]
Rule = Literal["split", "halves", "all"]


@dataclass(frozen=True)
class Deal:
    """The batch of every row, by a hash of its number, or of the name of its cluster, which stays whole.

    So batches are random samples whatever the order of rows, and all processes assign the same batches. Few
    rows are spread evenly: each is a batch if there are no more rows than batches.
    """

    num_batches: int
    few: int  # number of rows if these are few, else 0
    rule: Rule  # rows to fit and to test on: as marked, every other batch, or all for either

    @classmethod
    def of(cls, table: PartitionedPredictions, num_bins: int, *, fits: bool) -> Deal:
        several = table.kind == "multilabel"
        of_label = 8 * (num_cells(num_bins) * 2 * CELL_SUMS + 2 * num_bins * 3)
        room = ROOM // (table.num_classes * (of_label if several else num_bins * 24))
        number = min(MOST_BATCHES, max(LEAST_BATCHES, room), table.num_samples)
        few = table.num_samples if table.num_samples <= FEW else 0
        return cls(number, few, "split" if table.has_split else "halves" if fits else "all")

    def batches(self, piece: Piece) -> Indices:
        if piece.clusters is not None:
            names, which = np.unique(np.array(piece.clusters), return_inverse=True)
            codes = np.array([zlib.crc32(str(name).encode()) for name in names], np.int64)
            return self._batches_of(hashed(codes))[which]
        rows = slice(piece.first_row, piece.first_row + len(piece.labels))
        if self.few:
            return _places(self.few)[rows] % self.num_batches
        return self._batches_of(hashed(np.arange(rows.start, rows.stop)))

    def _batches_of(self, hashes: Hashes) -> Indices:
        return ((hashes >> np.uint64(32)) % np.uint64(self.num_batches)).astype(np.int64)

    def expected(self, part: Part, half: Half) -> float:
        """Number of rows of a part to fit or to test on; approximate for halves."""
        if self.rule == "split":
            return part.num_fit if half == "fit" else part.num_rows - part.num_fit
        return part.num_rows / (2 if self.rule == "halves" else 1)

    def rows(self, piece: Piece, half: Half) -> tuple[Indices, Indices]:
        batches = self.batches(piece)
        if self.rule == "all":
            return np.arange(len(batches)), batches
        of_split = self.rule == "split" and piece.split is not None
        chosen = (piece.split if of_split else batches % 2) == (0 if half == "fit" else 1)
        return np.flatnonzero(chosen), batches[chosen]


@lru_cache(maxsize=4)
def _places(number: int) -> Indices:
    places = np.empty(number, np.int64)
    places[np.argsort(hashed(np.arange(number)))] = np.arange(number)
    return places


MAX_GROUPS = 200


@dataclass(kw_only=True)
class BatchSums(Sums):
    """Sums of one arm: cells of confidence ``(G, K, 2, 8)`` and bins of classes ``(G, C, B, 3)``.

    Sums of parts add up, in a fixed order, so the last bit does not depend on which process made them.
    """

    num_batches: int
    num_samples: int  # upper bound for the test samples: few are all kept, more in fine cells
    clusters: bool = False  # whether batches are of clusters
    has_labels: bool = True  # whether true classes identify samples, not only correctness
    samples: int = 0  # hash of the rows, labels and weights, in any order
    dealing: int = 0  # hash of the batch of each row
    groups: dict[str, Matrix] | None = field(default_factory=dict[str, Matrix], init=False)
    """Sums of the top label in each group ``(G, B, 2, 4)``; ``None`` if there are too many groups."""
    top: ranked.TopLabelScores = field(init=False)  # confidences; for two classes, the probability of class 1
    ranks: ranked.ClassScores | None = field(init=False)  # None for very many classes, and for confidences
    _cells: Matrix = field(init=False)
    _classes: Matrix = field(init=False)

    unit: ClassVar[str] = "samples"
    no_ranks: ClassVar[str] = f"not computed: there are more than {WIDE:,} classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._cells = np.zeros((self.num_batches, num_cells(self.num_bins), 2, CELL_SUMS))
        self._classes = np.zeros((self.num_batches, self.num_classes, self.num_bins, 3))
        self.top = ranked.top_of(self.num_samples, self.num_batches)
        self.ranks = None
        columns = {"binary": 1, "multiclass": self.num_classes}.get(self.kind, WIDE + 1)
        if columns == 1 and isinstance(self.top, ranked.ExactScores):
            self.ranks = self.top
        elif columns <= WIDE:
            self.ranks = ranked.ranks_of(columns, self.num_samples, self.num_batches, clusters=self.clusters)

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
        """Names of groups, and the group of each row; empty if none are kept."""
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

    def merge(self, other: Self) -> None:
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
    def filled(self) -> Indices:
        return np.flatnonzero(self._cells[..., COUNT].any(axis=(1, 2)))

    def rows(self) -> tuple[Indices, Indices, Matrix]:
        cells = self._cells[self.filled].reshape(len(self.filled), -1, CELL_SUMS)
        batch, place = np.nonzero(cells[..., COUNT])
        return batch, place, cells[batch, place]

    def of_classes(self) -> Matrix:
        return self._classes[self.filled]

    def reduced(self, class_names: tuple[str, ...], metrics: Iterable[str]) -> ArmStatistics:
        reduced = super().reduced(class_names, metrics)
        return ranked.with_rank_statistics(reduced, self.top, self.ranks, self.filled, self.num_bins)

    def group_rows(self, reduced: ArmStatistics, procedure: Procedure) -> tuple[GroupRow, ...]:  # noqa: ARG002
        given = {name: each for name, each in (self.groups or {}).items() if each[..., 0].any()}
        large, other = large_groups({name: int(each[..., 2].sum()) for name, each in given.items()})
        small = [each for name, each in given.items() if name not in large]
        found = {name: each for name, each in given.items() if name in large}
        if small:
            found[other] = np.sum(small, axis=0)
        return rows_of_groups([_group(name, each) for name, each in sorted(found.items())], procedure)


def _group(name: str, sums: Matrix) -> Group:
    """Sums of a group: a row for each batch, bin and outcome with some weight."""
    batch, place, hit = np.nonzero(sums[..., 0])
    mass, stated, numbers, squares = sums[batch, place, hit].T
    clusters = np.unique(batch, return_inverse=True)[1].astype(np.int64)
    means = within_cells(stated / mass, place, width_edges(sums.shape[1]).numpy())
    event = Events(means, hit.astype(np.float64), mass, clusters, squares, numbers)
    return group_of(name, (event,), int(sums[..., 2].sum()))


BITS = 10  # of a label's fine cells: few, because there may be many labels


@dataclass(kw_only=True)
class LabelSums(SumsOfParts):
    """Sums of every label of one arm, each as an event."""

    num_classes: int
    num_bins: int
    num_batches: int
    num_samples: int  # upper bound for the test samples
    labels: tuple[BatchSums, ...] = field(init=False)

    groups: ClassVar[dict[str, Matrix]] = {}  # groups are evaluated in memory

    def __post_init__(self) -> None:
        size = {"num_bins": self.num_bins, "num_batches": self.num_batches, "num_samples": self.num_samples}
        self.labels = tuple(
            BatchSums(kind="binary", num_classes=2, clusters=False, has_labels=True, **size)
            for _ in range(self.num_classes)
        )
        if self.num_samples * self.num_classes > ranked.MOST_KEPT:  # as of classes
            for each in self.labels:
                each.top = ranked.BinnedScores(bits=BITS)
                each.ranks = ranked.BinnedClassScores(
                    num_columns=1, num_batches=self.num_batches, clusters=True, of_event=BITS
                )

    @property
    def top(self) -> ranked.TopLabelScores:
        return self.labels[0].top

    @property
    def fingerprint(self) -> tuple[object, object]:
        return tuple(each.samples for each in self.labels), self.labels[0].dealing

    @property
    def num_tested(self) -> int:
        return self.labels[0].num_tested

    @property
    def num_clusters(self) -> int:
        return self.labels[0].num_clusters

    def add(
        self, piece: Piece, rows: Indices, batches: Indices, *, logits: bool, calibrator: Calibrator | None
    ) -> None:
        if calibrator is not None:
            piece = replace(piece, scores=_calibrated(piece, calibrator, logits=logits))
            logits = True
        for place, each in enumerate(self.labels):
            each.add(piece.label(place, logits=logits), rows, batches, logits=logits, calibrator=None)

    def merge(self, other: Self) -> None:
        for mine, theirs in zip(self.labels, other.labels, strict=True):
            mine.merge(theirs)

    def reduced(self, class_names: tuple[str, ...], metrics: Iterable[str]) -> ArmStatistics:
        """Statistics of all labels, with batches as rows; the events of each label have rows of their own."""
        metrics = tuple(metrics)
        labels = [each.reduced(("", ""), metrics) for each in self.labels]
        batches, _, cells = self.labels[0].rows()
        weights = cluster_totals(cells[:, COUNT], batches)
        found = ArmStatistics(
            quantities=quantities("multilabel", metrics),
            weights=weights,
            ratios=_ratios(labels),
            events={"": tuple(each.events[EVENT][0] for each in labels)},
            values={},
            reasons={},
            influences={},
            classes=tuple(
                replace(each.classes[1], name=name) for name, each in zip(class_names, labels, strict=True)
            ),
            clusters=np.arange(len(weights)),
            rows_are_clusters=True,
        )
        denied = int(sum(each.rows()[2][:, INFINITE].sum() for each in self.labels))
        for each in found.quantities:
            _add_value(found, each, labels, self.num_bins, denied)
        return found


AnySums: TypeAlias = BatchSums | LabelSums


def _calibrated(piece: Piece, calibrator: Calibrator, *, logits: bool) -> Matrix:
    """Log-odds ``(n, L)`` after a calibrator."""
    given = torch.from_numpy(piece.scores.astype(np.float64))
    with torch.no_grad():
        return calibrator(given if logits else given.logit()).numpy()


def _ratios(labels: Sequence[ArmStatistics]) -> Ratios:
    totals: Ratios = {}
    for each in labels:
        for key, parts in each.ratios.items():
            above, below = (
                cluster_totals(part, each.clusters) for part in parts if each.clusters is not None
            )
            more, mass = totals.get(key, (0.0, 0.0))
            totals[key] = above + more, below + mass
    return totals


def _add_value(
    found: ArmStatistics, quantity: Quantity, labels: Sequence[ArmStatistics], num_bins: int, denied: int
) -> None:
    """Add a quantity, or the reason it is undefined; errors, slopes and areas are means over labels."""
    key, computed = quantity.key, quantity.computed
    if isinstance(computed, Ratio):
        above, below = found.ratios[key]
        if np.isinf(above).any():
            found.reasons[key] = f"infinite: {plural(denied, 'label')} with what happened at probability 0"
        elif below.any():
            found.values[key] = float(above.sum() / below.sum())
        else:
            found.reasons[key] = quantity.undefined or "undefined: no sample counts"
        return
    if isinstance(computed, ClassErrors):
        found.values[key] = found.values[ECE.key]
        return
    of_label = key if isinstance(computed, ClassRanks) else quantity.event_key
    known = [each for each in labels if of_label in each.values]
    if known:
        found.values[key] = float(np.mean([each.values[of_label] for each in known]))
    elif isinstance(computed, EventError):  # it has no form for a positive class
        found.values[key] = mean_error(computed.value, found.events[""], num_bins)
    else:
        found.reasons[key] = labels[0].reasons[of_label]
    moved = [_of_batches(each, of_label, found.mass) for each in known if of_label in each.influences]
    if moved:
        found.influences[key] = np.mean(moved, axis=0)


def _of_batches(label: ArmStatistics, key: str, weights: Vector) -> Vector:
    totals = influence_totals(label.influences[key], label.weights, label.codes)
    return totals * weights.sum() / weights
