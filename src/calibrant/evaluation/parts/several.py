"""Sums of batches of samples that have several labels: each label is an event."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch

from calibrant._math.dense_sums import CELL_SUMS
from calibrant.calibrators import Calibrator
from calibrant.evaluation.dense.cells import num_cells
from calibrant.evaluation.parts.ranked import MOST_KEPT, Celled, CelledRanks, Top
from calibrant.evaluation.parts.states import BatchSums
from calibrant.evaluation.resampling.events import Indices, Matrix
from calibrant.predictions.pieces import Piece

BITS = 10
"""Of the fine cells of a label, as there may be many."""


@dataclass(kw_only=True)
class LabelSums:
    """Sums of every label of one arm, each as an event."""

    num_classes: int
    num_bins: int
    num_batches: int
    num_samples: int
    """How many there may be to judge."""
    labels: tuple[BatchSums, ...] = field(init=False)

    groups: ClassVar[dict[str, Matrix]] = {}
    """Groups are judged in memory."""

    def __post_init__(self) -> None:
        size = {"num_bins": self.num_bins, "num_batches": self.num_batches, "num_samples": self.num_samples}
        self.labels = tuple(
            BatchSums(kind="binary", num_classes=2, clusters=False, **size) for _ in range(self.num_classes)
        )
        if self.num_samples * self.num_classes > MOST_KEPT:  # as of classes
            for each in self.labels:
                each.top = Celled(bits=BITS)
                each.ranks = CelledRanks(
                    num_columns=1, num_batches=self.num_batches, clusters=True, of_event=BITS
                )

    @property
    def top(self) -> Top:
        """Order of the first label."""
        return self.labels[0].top

    @property
    def samples(self) -> tuple[int, ...]:
        """Alike where rows and labels are the same."""
        return tuple(each.samples for each in self.labels)

    @property
    def dealing(self) -> int:
        """Alike where the rows are in the same batches."""
        return self.labels[0].dealing

    @property
    def fingerprint(self) -> object:
        """Alike where samples, labels and batches are the same."""
        return self.samples, self.dealing

    @property
    def num_positions(self) -> int:
        """Number of samples."""
        return self.labels[0].num_positions

    @property
    def filled(self) -> Indices:
        """The batches with samples in them."""
        return self.labels[0].filled

    def add(
        self, piece: Piece, rows: Indices, batches: Indices, *, logits: bool, calibrator: Calibrator | None
    ) -> None:
        """Add some rows, as their scores are or after a calibrator."""
        if calibrator is not None:
            piece = replace(piece, scores=_calibrated(piece, calibrator, logits=logits))
            logits = True
        for place, each in enumerate(self.labels):
            each.add(piece.label(place, logits=logits), rows, batches, logits=logits, calibrator=None)

    def merge(self, other: LabelSums) -> None:
        """Add the sums of another part."""
        for mine, theirs in zip(self.labels, other.labels, strict=True):
            mine.merge(theirs)


def bytes_of_a_label(num_bins: int) -> int:
    """Memory of a batch."""
    return 8 * (num_cells(num_bins) * 2 * CELL_SUMS + 2 * num_bins * 3)


def _calibrated(piece: Piece, calibrator: Calibrator, *, logits: bool) -> Matrix:
    """Log-odds ``(n, L)`` after a calibrator."""
    given = torch.from_numpy(piece.scores.astype(np.float64))
    with torch.no_grad():
        return calibrator(given if logits else given.logit()).numpy()
