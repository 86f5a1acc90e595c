"""Sums of batches of samples that have several labels: each label is an event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np
import torch

from calibrant._math.decimals import plural
from calibrant._math.dense_sums import COUNT, INFINITE
from calibrant.calibrators import Calibrator
from calibrant.evaluation.judging.reduce import ArmStatistics, Ratios, mean_error
from calibrant.evaluation.parts.ranked import MOST_KEPT, BinnedClassScores, BinnedScores, TopLabelScores
from calibrant.evaluation.parts.states import BatchSums
from calibrant.evaluation.quantities import ECE, quantities
from calibrant.evaluation.quantity import (
    EVENT,
    ClassErrors,
    ClassRanks,
    EventError,
    Quantity,
    Ratio,
)
from calibrant.evaluation.resampling.clusters import cluster_totals
from calibrant.evaluation.resampling.events import Indices, Matrix, Vector
from calibrant.evaluation.resampling.ranking import influence_totals
from calibrant.evaluation.samples import ArmSamples
from calibrant.predictions.partitioned import Piece

BITS = 10
"""Bits of a label's fine cells, few because there may be many labels."""


@dataclass(kw_only=True)
class LabelSums(ArmSamples):
    """Sums of every label of one arm, each as an event."""

    num_classes: int
    num_bins: int
    num_batches: int
    num_samples: int
    """Upper bound on the number of test samples."""
    labels: tuple[BatchSums, ...] = field(init=False)

    groups: ClassVar[dict[str, Matrix]] = {}
    """Groups are evaluated in memory."""

    def __post_init__(self) -> None:
        size = {"num_bins": self.num_bins, "num_batches": self.num_batches, "num_samples": self.num_samples}
        self.labels = tuple(
            BatchSums(kind="binary", num_classes=2, clusters=False, has_labels=True, **size)
            for _ in range(self.num_classes)
        )
        if self.num_samples * self.num_classes > MOST_KEPT:  # as of classes
            for each in self.labels:
                each.top = BinnedScores(bits=BITS)
                each.ranks = BinnedClassScores(
                    num_columns=1, num_batches=self.num_batches, clusters=True, of_event=BITS
                )

    @property
    def top(self) -> TopLabelScores:
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

    def merge(self, other: LabelSums) -> None:
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
    """Numerators and denominators of each batch, summed over the labels."""
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
    """Add a quantity or why it is undefined; errors, slopes and areas are means over labels."""
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
        found.values[key] = mean_error(computed, found.events[""], num_bins)
    else:
        found.reasons[key] = labels[0].reasons[of_label]
    moved = [_of_batches(each, of_label, found.mass) for each in known if of_label in each.influences]
    if moved:
        found.influences[key] = np.mean(moved, axis=0)


def _of_batches(label: ArmStatistics, key: str, weights: Vector) -> Vector:
    totals = influence_totals(label.influences[key], label.weights, label.codes)
    return totals * weights.sum() / weights


def added(sums: AnySums, others: AnySums) -> None:
    match sums, others:
        case LabelSums(), LabelSums():
            sums.merge(others)
        case BatchSums(), BatchSums():
            sums.merge(others)
        case _:
            raise TypeError("sums of different kinds cannot be added")
