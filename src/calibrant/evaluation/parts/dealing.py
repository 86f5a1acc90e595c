"""Samples split into batches, which replace clusters, so that memory does not grow."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.dense_sums import CELL_SUMS
from calibrant.evaluation.dense.sums import num_cells
from calibrant.evaluation.resampling.events import Indices, Vector
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
