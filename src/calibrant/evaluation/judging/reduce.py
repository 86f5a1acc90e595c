"""From predictions, calibrated or not, to the few numbers per sample that every quantity is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant.evaluation.judging.class_table import ClassTable
from calibrant.evaluation.judging.labelled_probs import Calibrate, LabelledProbs
from calibrant.evaluation.judging.scan import Agreement, class_rows, classwise_errors, rank_columns, scan_rows
from calibrant.evaluation.quantities import ECE, quantities
from calibrant.evaluation.quantity import (
    EVENT,
    ClassErrors,
    ClassRanks,
    EventError,
    EventInfluence,
    Quantity,
    Ratio,
    Samples,
)
from calibrant.evaluation.resampling.clusters import (
    cluster_codes,
    effective_share_number,
    number_of_clusters,
)
from calibrant.evaluation.resampling.drawn_labels import ClassNull
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector
from calibrant.evaluation.resampling.intervals import effective_number
from calibrant.evaluation.resampling.resamples import Counts
from calibrant.evaluation.result import ClassRow
from calibrant.evaluation.thresholds import WIDE
from calibrant.predictions import Predictions

WHY_MISSING = "needs the probabilities of all classes; these predictions hold the predicted class's only"

Ratios = dict[str, tuple[Vector, Vector]]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class ArmStatistics:
    """Reduced predictions of one arm: about one number per decision."""

    quantities: tuple[Quantity, ...]
    """Quantities measured, in table order; their keys are those of the mappings below."""
    weights: Vector | None
    ratios: Ratios  # quantities that are one weighted sum over the samples divided by another
    events: dict[str, tuple[Events, ...]]
    """The events whose calibration errors are averaged, by the prefix of the quantities."""
    values: dict[str, float]
    reasons: dict[str, str]  # why a quantity has no value
    influences: dict[str, Vector]  # the influence of each sample on the quantities that have no replicates
    classwise: Callable[[Counts], Vector] | None = None
    class_table: ClassTable | None = None  # classes that exclude each other, to draw labels of
    class_null: Callable[[int, tuple[int, ...], float], ClassNull] | None = None
    """Null of the classes from number of draws, seed and level, where there is no table."""
    agreement: Agreement | None = None
    """How predicted classes and labels agree, where classes exclude each other."""
    classes: tuple[ClassRow, ...] = ()
    no_interval: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a quantity that has a value is not resampled."""
    clusters: Indices | None = None
    """The number of each row's cluster; ``None`` where the samples are independent."""
    rows_are_clusters: bool = False  # whether each row is a cluster, and the events have rows of their own

    @property
    def mass(self) -> Vector:
        return np.ones(self.num_samples) if self.weights is None else self.weights

    @property
    def codes(self) -> Indices:
        """The number of each row's cluster; each row is its own where the samples are independent."""
        return np.arange(self.num_samples) if self.clusters is None else self.clusters

    @property
    def num_samples(self) -> int:
        return len(next(iter(self.ratios.values()))[0])

    @property
    def effective_samples(self) -> float:
        """Effective number of rows, given their weights; of clusters, if there are any."""
        if self.clusters is not None:
            return number_of_clusters(self.weights, self.clusters)
        return self.num_samples if self.weights is None else effective_number(self.weights)


def effective_number_of(reduced: ArmStatistics, key: str) -> float:
    """Effective number of independent samples for a share, such as the accuracy."""
    if reduced.clusters is None or key not in reduced.ratios:
        return reduced.effective_samples
    above, below = reduced.ratios[key]
    shares = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return effective_share_number(shares, below, reduced.clusters, reduced.events[""][0].numbers)


def reduce_predictions(
    predictions: Predictions,
    num_bins: int,
    calibrate: Calibrate | None = None,
    *,
    metrics: Iterable[str] = (),
) -> ArmStatistics:
    """Judge every sample, after ``calibrate`` if there is one; ``metrics`` are measured beside the usual."""
    wanted = quantities(predictions.kind, metrics)
    if predictions.kind == "top_label":
        reduced = _reduce_top_label(predictions, wanted, num_bins)
    else:
        reduced = _reduce_table(LabelledProbs(predictions, calibrate), wanted, num_bins)
    return reduced if predictions.clusters is None else in_clusters(reduced, predictions.clusters)


def in_clusters(reduced: ArmStatistics, names: Sequence[str]) -> ArmStatistics:
    """Reduced predictions with cluster codes on their events and class table."""
    codes = cluster_codes(names)
    events = {
        prefix: tuple(replace(event, clusters=codes) for event in part)
        for prefix, part in reduced.events.items()
    }
    table = None if reduced.class_table is None else replace(reduced.class_table, clusters=codes)
    return replace(reduced, clusters=codes, events=events, class_table=table)


def _reduce_top_label(predictions: Predictions, wanted: tuple[Quantity, ...], num_bins: int) -> ArmStatistics:
    weights = None if predictions.weights is None else predictions.weights.numpy()
    top = Events(predictions.confidence.numpy(), predictions.correct.to(torch.float64).numpy(), weights)
    unknown = np.empty(0)
    stated = np.where(top.outcomes > 0, top.confidences, 1 - top.confidences)  # of what happened
    samples = Samples(
        confidence=top.confidences[:, None],
        correct=top.outcomes[:, None],
        entropy=unknown[:, None],
        nll=-np.log(stated, where=stated > 0, out=np.full(len(stated), -np.inf)),
        brier=(1 - stated) ** 2,
        stated=unknown,
        happened=unknown,
    )
    known = [each for each in wanted if not each.needs_all_classes]
    ratios = ratios_of(known, samples, weights)
    values, reasons, influences = values_of(known, ratios, {"": (top,)}, num_bins, _sure_and_wrong)
    reasons |= {each.key: WHY_MISSING for each in wanted if each.needs_all_classes}
    return ArmStatistics(
        quantities=wanted,
        weights=weights,
        ratios=ratios,
        events={"": (top,)},
        values=values,
        reasons=reasons,
        influences=influences,
    )


def _reduce_table(table: LabelledProbs, wanted: tuple[Quantity, ...], num_bins: int) -> ArmStatistics:
    scan, ranks = scan_rows(table, num_bins), rank_columns(table)
    weights = table.weights
    events: dict[str, tuple[Events, ...]] = {"": ranks.events}
    if table.kind != "multilabel":
        events = {"": (Events(scan.confidence[:, 0], scan.correct[:, 0], weights),)}
    if table.kind == "binary":
        events[EVENT] = ranks.events
    stated, happened = np.empty(0), np.empty(0)
    if table.kind != "multiclass":
        stated = np.mean([event.confidences for event in ranks.events], axis=0)
        happened = np.mean([event.outcomes for event in ranks.events], axis=0)
    samples = Samples(
        confidence=scan.confidence,
        correct=scan.correct,
        entropy=scan.entropy,
        nll=scan.nll,
        brier=scan.brier,
        stated=stated,
        happened=happened,
    )
    ratios = ratios_of(wanted, samples, weights)
    values, reasons, influences = values_of(wanted, ratios, events, num_bins, _denied)
    class_errors = scan.sums.calibration_error("l1")
    areas = [area for area in ranks.areas if area is not None]
    no_interval: dict[str, str] = {}
    for each in wanted:
        lacking = each.when_streamed if table.one_pass else None
        if lacking and not table.streamed:
            lacking = f"{lacking.split(':')[0]}: there are more than {WIDE:,} classes"
        if isinstance(each.computed, ClassErrors):
            binary = table.kind == "binary"
            values[each.key] = values[ECE.event_key] if binary else float(class_errors.mean())
            if lacking:
                no_interval[each.key] = lacking
        elif isinstance(each.computed, ClassRanks) and areas:
            values[each.key], influences[each.key] = float(np.mean(areas)), ranks.influence
        elif isinstance(each.computed, ClassRanks):
            reasons[each.key] = lacking or each.undefined or ""
    return ArmStatistics(
        quantities=wanted,
        weights=weights,
        ratios=ratios,
        events=events,
        values=values,
        reasons=reasons,
        classwise=classwise_errors(table, scan, num_bins),
        agreement=scan.agreement,
        class_table=None if scan.agreement is None else ClassTable(table, scan.sums, scan.agreement.variance),
        influences=influences,
        classes=class_rows(table, scan, class_errors.tolist(), ranks.areas),
        no_interval=no_interval,
    )


def ratios_of(wanted: Sequence[Quantity], samples: Samples, weights: Vector | None) -> Ratios:
    """Weighted numerators and denominators ``(N,)`` of the quantities that are ratios."""
    ratios = [(each.computed, each.key) for each in wanted if isinstance(each.computed, Ratio)]
    ratios.sort(key=lambda pair: pair[0].column)
    parts = {key: ratio.parts(samples) for ratio, key in ratios}
    sums: dict[int, Vector] = {}  # most share their denominator, which is kept once

    def summed(values: Matrix) -> Vector:
        if id(values) not in sums:
            sums[id(values)] = weighted(values if values.ndim == 1 else values.sum(axis=1), weights)
        return sums[id(values)]

    return {key: (summed(above), summed(below)) for key, (above, below) in parts.items()}


def weighted(values: Vector, weights: Vector | None) -> Vector:
    """Values times weights; a sample of weight zero does not count, even where its value is infinite."""
    return values if weights is None else np.where(weights > 0, values, 0.0) * weights


def _denied(infinite: Mask) -> str:
    count = int(infinite.sum())
    give = "1 sample gives its" if count == 1 else f"{count} samples give their"
    return f"{give} true class probability 0"


def _sure_and_wrong(infinite: Mask) -> str:
    count = int(infinite.sum())
    are = "1 sample is" if count == 1 else f"{count} samples are"
    return f"{are} wrong with a confidence of 1, or right with one of 0"


def values_of(
    wanted: Sequence[Quantity],
    ratios: Ratios,
    events: Mapping[str, tuple[Events, ...]],
    num_bins: int,
    denied: Callable[[Mask], str],
) -> tuple[dict[str, float], dict[str, str], dict[str, Vector]]:
    """Values, reasons for missing ones, influences; ``denied`` says why given rows have infinite scores."""
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    influences: dict[str, Vector] = {}
    for each in wanted:
        key = each.key
        match each.computed:
            case Ratio():
                above, below = ratios[key]
                infinite = np.isinf(above)
                if infinite.any():
                    reasons[key] = f"infinite: {denied(infinite)}"
                elif below.any():
                    values[key] = float(above.sum() / below.sum())
                else:
                    reasons[key] = each.undefined or "undefined: no sample counts"
            case EventError() as error:
                values[key] = mean_error(error, events[each.prefix], num_bins)
            case EventInfluence() as parameter:
                lines = [parameter.value(event) for event in events[each.prefix]]
                found = [line for line in lines if not isinstance(line, str)]
                if found:
                    values[key] = float(np.mean([line[0] for line in found]))
                    influences[key] = np.mean([line[1] for line in found], axis=0)
                else:
                    reasons[key] = str(lines[0])
            case ClassErrors() | ClassRanks():
                pass  # from the table of the classes
    return values, reasons, influences


def mean_error(error: EventError, events: Sequence[Events], num_bins: int) -> float:
    each = [error.value(event.confidences, event.outcomes, event.weights, num_bins) for event in events]
    return float(np.mean(each))
