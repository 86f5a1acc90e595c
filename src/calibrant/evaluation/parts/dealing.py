"""Samples dealt out to batches, which take the place of clusters: so what is kept does not grow."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant.evaluation.parts.several import bytes_of_a_label
from calibrant.evaluation.resampling.events import Indices
from calibrant.predictions.partitioned import Part, PartitionedPredictions
from calibrant.predictions.pieces import Piece

MOST_BATCHES, LEAST_BATCHES = 256, 32
ROOM = 1 << 26  # bytes of the sums of classes
_RUN = 64  # rows, at most
_RUNS = 16  # of each batch, at least
Half = Literal["fit", "test"]
Rule = Literal["split", "halves", "all"]


@dataclass(frozen=True)
class Deal:
    """The batch of every row: by turns of a few rows, or whole clusters by their names.

    It depends on the size of the table alone, so all who read some of it deal alike. Turns mix what is sorted
    by class, and a cluster is in one batch.
    """

    num_batches: int
    run: int
    rule: Rule
    """Which rows to fit on, and which to judge: as the table says, every other batch, or all for either."""

    @classmethod
    def of(cls, table: PartitionedPredictions, num_bins: int, *, fits: bool) -> Deal:
        """As many batches as there is room for."""
        several = table.kind == "multilabel"
        room = ROOM // (table.num_classes * (bytes_of_a_label(num_bins) if several else num_bins * 24))
        number = min(MOST_BATCHES, max(LEAST_BATCHES, room), table.num_samples)
        number -= number % 2 if number > 2 else 0
        run = min(_RUN, max(1, table.num_samples // (_RUNS * number)))
        return cls(number, run, "split" if table.has_split else "halves" if fits else "all")

    def batches(self, piece: Piece) -> Indices:
        """The batch of each row of a piece."""
        if piece.clusters is not None:
            names, which = np.unique(np.array(piece.clusters), return_inverse=True)
            codes = np.array([zlib.crc32(str(name).encode()) for name in names], np.int64)
            return codes[which] % self.num_batches
        rows = np.arange(piece.first_row, piece.first_row + len(piece.labels))
        return rows // self.run % self.num_batches

    def expected(self, part: Part, half: Half) -> float:
        """How many rows of a part are to fit or to judge on; of halves about so many."""
        if self.rule == "split":
            return part.num_fit if half == "fit" else part.num_rows - part.num_fit
        return part.num_rows / (2 if self.rule == "halves" else 1)

    def rows(self, piece: Piece, half: Half) -> tuple[Indices, Indices]:
        """The rows to fit or to judge on and their batches."""
        batches = self.batches(piece)
        if self.rule == "all":
            return np.arange(len(batches)), batches
        of_split = self.rule == "split" and piece.split is not None
        chosen = (piece.split if of_split else batches % 2) == (0 if half == "fit" else 1)
        return np.flatnonzero(chosen), batches[chosen]
