"""From sums of several labels to what an evaluation keeps of an arm; a row stands for a batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from calibrant._math.dense_sums import BRIER, COUNT, ENTROPY, INFINITE, NLL, NUMBER, SQUARES, STATED
from calibrant.evaluation.judging.reduce import Ratios, Reduced, mean_error, ratios_of
from calibrant.evaluation.parts.several import LabelSums
from calibrant.evaluation.parts.states import BatchSums
from calibrant.evaluation.quantities.ece import ECE
from calibrant.evaluation.quantities.quantity import (
    ClassErrors,
    ClassRanks,
    EventError,
    EventInfluence,
    Quantity,
    Ratio,
)
from calibrant.evaluation.quantities.roster import quantities
from calibrant.evaluation.quantities.samples import Samples
from calibrant.evaluation.resampling.clusters import cluster_totals
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector
from calibrant.evaluation.resampling.ranking import influence_totals
from calibrant.evaluation.result import ClassRow


def reduced_labels(sums: LabelSums, names: tuple[str, ...], metrics: Iterable[str] = ()) -> Reduced:
    """What :func:`~calibrant.evaluation.judging.reduce.reduce_predictions` gives for labels in memory.

    A row stands for a batch; the events of each label have rows of their own, each of a batch.
    """
    wanted = quantities("multilabel", metrics)
    labels = [_Label.of(each) for each in sums.labels]
    weights = cluster_totals(labels[0].cells[:, COUNT], labels[0].batches)
    ratios: Ratios = {}
    for each in labels:
        for key, parts in ratios_of(wanted, each.samples, each.cells[:, COUNT]).items():
            above, below = (cluster_totals(part, each.batches) for part in parts)
            more, mass = ratios.get(key, (0.0, 0.0))
            ratios[key] = above + more, below + mass
    found = Reduced(
        quantities=wanted,
        weights=weights,
        ratios=ratios,
        events={"": tuple(each.event for each in labels)},
        values={},
        reasons={},
        influences={},
        classes=_rows(sums, labels, names),
        clusters=np.arange(len(weights)),
        rows_are_clusters=True,
    )
    denied = int(sum(each.cells[:, INFINITE].sum() for each in labels))
    for each in wanted:
        _add_value(found, each, sums, denied)
    return found


def _add_value(found: Reduced, quantity: Quantity, sums: LabelSums, denied: int) -> None:
    """What a quantity is, or why it is not."""
    key, events = quantity.key, found.events[""]
    match quantity.computed:
        case Ratio():
            above, below = found.ratios[key]
            if np.isinf(above).any():
                found.reasons[key] = f"infinite: {denied:,} labels that occur, or do not, are ruled out"
            elif below.any():
                found.values[key] = float(above.sum() / below.sum())
            else:
                found.reasons[key] = quantity.undefined or "undefined: no sample counts"
        case EventError() as error:
            found.values[key] = mean_error(error, events, sums.num_bins)
        case EventInfluence() as parameter:
            lines = [(parameter.value(event), event) for event in events]
            kept = [(line, event) for line, event in lines if not isinstance(line, str)]
            if not kept:
                found.reasons[key] = str(lines[0][0])
                return
            found.values[key] = float(np.mean([line[0] for line, _ in kept]))
            moves = [_of_batches(line[1], event, found.weights) for line, event in kept]
            found.influences[key] = np.mean(moves, axis=0)
        case ClassErrors():
            found.values[key] = found.values[ECE.key]
        case ClassRanks():
            found.reasons[key] = BatchSums.no_ranks


def _of_batches(influence: Vector, event: Events, weights: Vector | None) -> Vector:
    """The influences of batches that move a statistic as those of their rows do together."""
    if event.clusters is None or weights is None:
        raise RuntimeError("rows of batches have clusters and weights")
    return influence_totals(influence, event.weights, event.clusters) * weights.sum() / weights


@dataclass(frozen=True)
class _Label:
    """The rows of one label: a batch, a cell of the probability, and whether the label occurs."""

    batches: Indices
    cells: Matrix
    event: Events
    samples: Samples

    @classmethod
    def of(cls, sums: BatchSums) -> _Label:
        batches, hits, cells = sums.rows()
        weights = cells[:, COUNT]
        stated, happened = cells[:, STATED] / weights, hits.astype(np.float64)
        sure, right = np.maximum(stated, 1 - stated), ((stated > 0.5) == (happened > 0)).astype(np.float64)
        samples = Samples(
            confidence=sure[:, None],
            correct=right[:, None],
            entropy=(cells[:, ENTROPY] / weights)[:, None],
            nll=np.where(cells[:, INFINITE] > 0, np.inf, cells[:, NLL]) / weights,
            brier=cells[:, BRIER] / weights,
            stated=stated,
            happened=happened,
        )
        event = Events(stated, happened, weights, batches, cells[:, SQUARES], cells[:, NUMBER])
        return cls(batches, cells, event, samples)


def _rows(sums: LabelSums, labels: list[_Label], names: tuple[str, ...]) -> tuple[ClassRow, ...]:
    """The table of the labels."""
    total = float(labels[0].cells[:, COUNT].sum())
    rows: list[ClassRow] = []
    for name, label, kept in zip(names, labels, sums.labels, strict=True):
        occurs = float(kept.agreement[1, 1])
        rows.append(
            ClassRow(
                name=name,
                count=int(kept.agreement[1, 4]),
                mean_probability=float(label.cells[:, STATED].sum()) / total,
                prevalence=occurs / total,
                ece=mean_error(_error(), (label.event,), sums.num_bins),
                auroc=None,
                accuracy=None if occurs == 0 else float(kept.agreement[1, 3]) / occurs,
            )
        )
    return tuple(rows)


def _error() -> EventError:
    """The calibration error over bins of equal width."""
    if not isinstance(ECE.computed, EventError):
        raise TypeError("the ECE is an error of events")
    return ECE.computed
