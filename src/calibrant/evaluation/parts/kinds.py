"""Sums of a part, for every kind of predictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from calibrant.evaluation.dense.reduce import reduced_sums
from calibrant.evaluation.dense.states import Sums
from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.parts.several import LabelSums, reduced_labels
from calibrant.evaluation.parts.states import BatchSums
from calibrant.predictions.checks import Kind

AnySums: TypeAlias = BatchSums | LabelSums


def no_sums(
    kind: Kind, num_classes: int, num_bins: int, num_batches: int, num_samples: int, *, clusters: bool
) -> AnySums:
    """The sums of no rows, of which there may be so many; ``clusters`` says whether batches are of these."""
    size = {"num_bins": num_bins, "num_batches": num_batches, "num_samples": num_samples}
    if kind == "multilabel":
        return LabelSums(num_classes=num_classes, **size)
    return BatchSums(kind=kind, num_classes=num_classes, clusters=clusters, **size)


def added(sums: AnySums, others: AnySums) -> None:
    """Add the sums of another part."""
    match sums, others:
        case LabelSums(), LabelSums():
            sums.merge(others)
        case BatchSums(), BatchSums():
            sums.merge(others)
        case _:
            raise TypeError("sums of different kinds cannot be added")


def reduced_of(sums: Sums | LabelSums, names: tuple[str, ...], metrics: Iterable[str]) -> Reduced:
    """Reduced predictions from the sums."""
    if isinstance(sums, LabelSums):
        return reduced_labels(sums, names, metrics)
    return reduced_sums(sums, names, metrics)
