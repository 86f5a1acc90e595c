"""From sums of several labels to what an evaluation keeps of an arm; a row stands for a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from calibrant._math.decimals import plural
from calibrant._math.dense_sums import COUNT, INFINITE
from calibrant.evaluation.dense.reduce import reduced_sums
from calibrant.evaluation.judging.reduce import Ratios, Reduced, mean_error
from calibrant.evaluation.parts.several import LabelSums
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
from calibrant.evaluation.resampling.events import Vector
from calibrant.evaluation.resampling.ranking import influence_totals


def reduced_labels(sums: LabelSums, names: tuple[str, ...], metrics: Iterable[str]) -> Reduced:
    """:func:`~calibrant.evaluation.judging.reduce.reduce_predictions`, from the sums of labels.

    A row stands for a batch; the events of each label have rows of their own, each of a batch.
    """
    metrics = tuple(metrics)
    labels = [reduced_sums(each, ("", ""), metrics) for each in sums.labels]
    batches, _, cells = sums.labels[0].rows()
    weights = cluster_totals(cells[:, COUNT], batches)
    found = Reduced(
        quantities=quantities("multilabel", metrics),
        weights=weights,
        ratios=_ratios(labels),
        events={"": tuple(each.events[EVENT][0] for each in labels)},
        values={},
        reasons={},
        influences={},
        classes=tuple(replace(each.classes[1], name=name) for name, each in zip(names, labels, strict=True)),
        clusters=np.arange(len(weights)),
        rows_are_clusters=True,
    )
    denied = int(sum(each.rows()[2][:, INFINITE].sum() for each in sums.labels))
    for each in found.quantities:
        _add_value(found, each, labels, sums.num_bins, denied)
    return found


def _ratios(labels: Sequence[Reduced]) -> Ratios:
    """Sums above and below of each batch, over all labels."""
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
    found: Reduced, quantity: Quantity, labels: Sequence[Reduced], num_bins: int, denied: int
) -> None:
    """Add a quantity, or the reason why it is undefined; errors, slopes and areas are means over labels."""
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
    moved = [_of_batches(each, of_label, found.weights) for each in known if of_label in each.influences]
    if moved:
        found.influences[key] = np.mean(moved, axis=0)


def _of_batches(label: Reduced, key: str, weights: Vector | None) -> Vector:
    """The influences of batches that move a statistic as those of their rows do together."""
    if label.clusters is None or weights is None:
        raise RuntimeError("rows of batches have clusters and weights")
    totals = influence_totals(label.influences[key], label.weights, label.clusters)
    return totals * weights.sum() / weights
