"""Reduction of predictions to the few numbers per sample that every quantity needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calibrant._math.binning import BinSums, SparseColumnSums, width_bin_index, width_column_sums
from calibrant._math.drawing import cluster_codes
from calibrant._math.errors import InputError
from calibrant._math.machine import give_back
from calibrant._math.scores import brier_scores, entropies, top_label
from calibrant._math.shapes import Float, Int
from calibrant.evaluation.arguments import WIDE, Procedure
from calibrant.evaluation.fitting.split import Split
from calibrant.evaluation.fitting.templates import FittedCalibrator
from calibrant.evaluation.judging.class_table import (
    Calibrate,
    ClassTable,
    LabelledProbs,
    class_rows,
    with_complement,
)
from calibrant.evaluation.quantities import AUROC, ECE, quantities
from calibrant.evaluation.quantity import (
    EVENT,
    ClassErrors,
    ClassRanks,
    Error,
    EventError,
    EventInfluence,
    Quantity,
    Ratio,
    Samples,
)
from calibrant.evaluation.resampling.events import (
    Events,
    Indices,
    Matrix,
    Vector,
    auroc_influence,
    effective_share_number,
    number_of_clusters,
)
from calibrant.evaluation.resampling.intervals import effective_number
from calibrant.evaluation.resampling.null import ClassNull
from calibrant.evaluation.resampling.resamples import ClasswiseErrors, Counts
from calibrant.evaluation.result import ClassRow, GroupRow
from calibrant.predictions import DensePredictions, Kind, Predictions
from calibrant.predictions.partitioned import PartitionedPredictions

WHY_MISSING = "needs the probabilities of all classes; these predictions hold the predicted class's only"
OFFSETS = (-1, 0, 1)

Ratios = dict[str, tuple[Vector, Vector]]


class Agreement:
    """Weighted counts of predicted and actual classes."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        # Weight of samples whose predicted class is the label plus the key.
        self.hits: dict[int, float] = dict.fromkeys(OFFSETS, 0.0)
        self.total = 0.0
        # Weight of each class, and the variance of its occurrences under calibration.
        self.predicted, self.occurred, self.variance = torch.zeros((3, num_classes), dtype=torch.float64)

    def add(
        self, probs: Float[Tensor, "n C"], labels: Int[Tensor, " n"], weights: Float[Tensor, " n"] | None
    ) -> None:
        predicted = probs.argmax(dim=1)
        mass = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights
        self.total += float(mass.sum())
        self.variance += mass.square() @ (probs * (1 - probs))
        self.predicted.index_add_(0, predicted, mass)
        self.occurred.index_add_(0, labels, mass)
        for offset in OFFSETS:
            self.hits[offset] += float(mass[predicted == labels + offset].sum())

    def share(self, offset: int) -> float:
        return self.hits[offset] / self.total

    @property
    def by_chance(self) -> float:
        """Expected agreement of independent predictions and labels."""
        return float(self.predicted @ self.occurred) / self.total**2


@dataclass(frozen=True, kw_only=True)
class ArmStatistics:
    """Statistics of one arm: about one number per decision."""

    quantities: tuple[Quantity, ...]  # in table order; their keys are those of the mappings below
    weights: Vector | None
    ratios: Ratios  # quantities that are one weighted sum over the samples divided by another
    events: dict[str, tuple[Events, ...]]  # whose errors are averaged, by the quantities' prefix
    values: dict[str, float]
    reasons: dict[str, str]  # why a quantity has no value
    influences: dict[str, Vector]  # the influence of each sample on the quantities that have no replicates
    classwise: Callable[[Counts], Vector] | None = None
    class_table: ClassTable | None = None  # classes that exclude each other, to draw labels of
    class_null: Callable[[int, tuple[int, ...], float], ClassNull] | None = None  # draws, seed, level
    agreement: Agreement | None = None  # if classes exclude each other
    classes: tuple[ClassRow, ...] = ()
    no_interval: Mapping[str, str] = field(default_factory=dict[str, str])  # reasons by quantity
    clusters: Indices | None = None  # number of each row's cluster; None: independent
    rows_are_clusters: bool = False  # whether each row is a cluster, and the events have rows of their own

    @property
    def mass(self) -> Vector:
        return np.ones(self.num_samples) if self.weights is None else self.weights

    @property
    def codes(self) -> Indices:
        """Cluster number of each row; independent rows are clusters of their own."""
        return np.arange(self.num_samples) if self.clusters is None else self.clusters

    @property
    def num_samples(self) -> int:
        return len(next(iter(self.ratios.values()))[0])

    @property
    def effective_samples(self) -> float:
        if self.clusters is not None:
            return number_of_clusters(self.weights, self.clusters)
        return self.num_samples if self.weights is None else effective_number(self.weights)


def with_ranks_of(before: ArmStatistics, after: ArmStatistics) -> ArmStatistics:
    """The statistics with the AUROC before: the maps of several folds do not rank as one of them does."""
    if AUROC.key not in before.values:
        return after
    return replace(
        after,
        values={**after.values, AUROC.key: before.values[AUROC.key]},
        influences={**after.influences, AUROC.key: before.influences[AUROC.key]},
    )


def effective_number_of(reduced: ArmStatistics, key: str) -> float:
    """Effective number of independent samples, or of decisions on several labels, for a share."""
    events = reduced.events[""]
    if key not in reduced.ratios or (reduced.clusters is None and len(events) == 1):
        return reduced.effective_samples
    above, below = reduced.ratios[key]
    shares = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    most = sum(float(event.counts.sum()) for event in events)
    return effective_share_number(shares, below, reduced.codes, most)


def reduce_predictions(
    predictions: Predictions,
    num_bins: int,
    calibrate: Calibrate | None = None,
    *,
    metrics: Iterable[str] = (),
) -> ArmStatistics:
    """Reduce every sample, after ``calibrate`` if given; ``metrics`` add to the default quantities."""
    wanted = quantities(predictions.kind, metrics)
    if predictions.kind == "top_label":
        reduced = _reduce_top_label(predictions, wanted, num_bins)
    else:
        reduced = _reduce_table(LabelledProbs(predictions, calibrate), wanted, num_bins)
    if predictions.clusters is None:
        return reduced
    codes, table = cluster_codes(predictions.clusters), reduced.class_table
    events = {
        prefix: tuple(replace(event, clusters=codes) for event in part)
        for prefix, part in reduced.events.items()
    }
    table = None if table is None else replace(table, clusters=codes)
    return replace(reduced, clusters=codes, events=events, class_table=table)


def statistics_of(
    kind: Kind,
    wanted: tuple[Quantity, ...],
    samples: Samples,
    events: dict[str, tuple[Events, ...]],
    weights: Vector | None,
    num_bins: int,
    *,
    infinite: tuple[str, Vector] | None = None,
    **more: Any,
) -> ArmStatistics:
    """The statistics of all quantities but errors and ranks of classes.

    Rows that pool some samples have the noun of these, and how many of them have an ``infinite`` score.
    """
    known = [each for each in wanted if kind != "top_label" or not each.needs_all_classes]
    values: dict[str, float] = {}
    reasons = {each.key: WHY_MISSING for each in wanted if each not in known}
    influences: dict[str, Vector] = {}
    ratios = ratios_of(known, samples, weights)
    for each in known:
        key = each.key
        match each.computed:
            case Ratio():
                above, below = ratios[key]
                if (lost := np.isinf(above)).any():
                    count = lost.sum() if infinite is None else infinite[1][lost].sum()
                    reasons[key] = f"infinite: {_denied(kind, int(count), infinite and infinite[0])}"
                elif below.any():
                    values[key] = float(above.sum() / below.sum())
                else:
                    reasons[key] = each.undefined or "undefined: no sample counts"
            case EventError(kernel="smooth") if len(events[each.prefix]) == 1:
                values[key] = events[each.prefix][0].witness[0]  # which the diagrams show
            case EventError() as error:
                values[key] = mean_error(error.value, events[each.prefix], num_bins)
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
    return ArmStatistics(
        quantities=wanted,
        weights=weights,
        ratios=ratios,
        events=events,
        values=values,
        reasons=reasons,
        influences=influences,
        **more,
    )


def _denied(kind: Kind, count: int, noun: str | None) -> str:
    one = count == 1 and noun is None
    subject = "1 sample" if one else f"{count} samples" if noun is None else f"{count:,} {noun}"
    if kind == "top_label":
        return f"{subject} {'is' if one else 'are'} wrong with a confidence of 1, or right with one of 0"
    return f"{subject} {'gives its' if one else 'give their'} true class probability 0"


def mean_error(error: Error, events: Sequence[Events], num_bins: int) -> float:
    each = [error(event.confidences, event.outcomes, event.weights, num_bins) for event in events]
    return float(np.mean(each))


def ratios_of(wanted: Sequence[Quantity], samples: Samples, weights: Vector | None) -> Ratios:
    """Weighted numerators and denominators ``(N,)`` of the quantities that are ratios."""
    ratios = [(each.computed, each.key) for each in wanted if isinstance(each.computed, Ratio)]
    ratios.sort(key=lambda pair: pair[0].column)
    parts = {key: ratio.parts(samples) for ratio, key in ratios}
    sums: dict[int, Vector] = {}  # most share their denominator, which is kept once

    def summed(values: Matrix) -> Vector:
        if id(values) not in sums:
            one = values.reshape(len(values), -1)
            one = one[:, 0] if one.shape[1] == 1 else one.sum(axis=1)
            # A weight of zero gives zero, even for an infinite value.
            sums[id(values)] = one if weights is None else np.where(weights > 0, one, 0.0) * weights
        return sums[id(values)]

    return {key: (summed(above), summed(below)) for key, (above, below) in parts.items()}


def _reduce_top_label(predictions: Predictions, wanted: tuple[Quantity, ...], num_bins: int) -> ArmStatistics:
    weights = None if predictions.weights is None else predictions.weights.numpy()
    top = Events(predictions.confidence.numpy(), predictions.correct.to(torch.float64).numpy(), weights)
    unknown = np.empty(0)
    stated = np.where(top.outcomes > 0, top.confidences, 1 - top.confidences)  # probability of the outcome
    samples = Samples(
        confidence=top.confidences[:, None],
        correct=top.outcomes[:, None],
        entropy=unknown[:, None],
        nll=-np.log(stated, where=stated > 0, out=np.full(len(stated), -np.inf)),
        brier=(1 - stated) ** 2,
        stated=unknown,
        happened=unknown,
    )
    return statistics_of("top_label", wanted, samples, {"": (top,)}, weights, num_bins)


def _reduce_table(table: LabelledProbs, wanted: tuple[Quantity, ...], num_bins: int) -> ArmStatistics:
    samples, sums, agreement, cells = scan_rows(table, num_bins)
    areas, ranks, separate = _rank_columns(table)
    weights, binary = table.weights, table.kind == "binary"
    events: dict[str, tuple[Events, ...]] = {"": separate}
    if table.kind != "multilabel":
        events = {"": (Events(samples.confidence[:, 0], samples.correct[:, 0], weights),)}
    if binary:
        events[EVENT] = separate
    if table.kind != "multiclass":
        given = zip(*((event.confidences, event.outcomes) for event in separate), strict=True)
        stated, happened = (each[0] if len(each) == 1 else np.mean(each, axis=0) for each in given)
        samples = replace(samples, stated=stated, happened=happened)
    give_back(table.num_samples)
    no_interval: dict[str, str] = {}
    found = statistics_of(
        table.kind,
        wanted,
        samples,
        events,
        weights,
        num_bins,
        classwise=_classwise_errors(table, cells, num_bins),
        agreement=agreement,
        class_table=None if agreement is None else ClassTable(table, sums, agreement.variance),
        classes=_class_rows(table, sums, samples.correct, areas),
        no_interval=no_interval,
    )
    known = [area for area in areas if area is not None]
    values = found.values
    for each in wanted:
        lacking = each.when_streamed if table.one_pass else None
        if lacking and not table.streamed:
            lacking = f"{lacking.split(':')[0]}: there are more than {WIDE:,} classes"
        if isinstance(each.computed, ClassErrors):
            values[each.key] = values[ECE.event_key] if binary else float(sums.calibration_error("l1").mean())
            if lacking:
                no_interval[each.key] = lacking
        elif isinstance(each.computed, ClassRanks) and known:
            values[each.key], found.influences[each.key] = float(np.mean(known)), ranks
        elif isinstance(each.computed, ClassRanks):
            found.reasons[each.key] = lacking or each.undefined or ""
    return found


Cells: TypeAlias = tuple[Indices, Indices, Vector]  # row, cell, weighted residual


def scan_rows(table: LabelledProbs, num_bins: int) -> tuple[Samples, BinSums, Agreement | None, list[Cells]]:
    """Numbers of each sample, bins of every class or label, and for classes agreement and filled cells."""
    # Nothing small is kept from block to block: between large ones it would leave the memory in pieces.
    columns: list[Tensor] = []
    sums: BinSums | None = None
    cells: list[Cells] = []
    sparse = SparseColumnSums(table.num_classes if table.wide else 0, num_bins)
    agreement = Agreement(table.num_classes) if table.kind == "multiclass" else None
    for rows in table.row_blocks():
        probs, labels = table.probs_of(rows), table.labels[rows]
        classes = with_complement(probs)
        weights = None if table.weights is None else torch.from_numpy(table.weights[rows])
        nll, brier = table.log_losses(rows, probs), brier_scores(probs, labels)
        parts = (nll, brier, *_decisions(probs, labels))
        if not columns:
            columns = [torch.empty((table.num_samples, *part.shape[1:]), dtype=part.dtype) for part in parts]
        for column, part in zip(columns, parts, strict=True):
            column[rows] = part
        if table.wide:
            sparse.add(classes, labels, weights)
        else:
            found = width_column_sums(classes, labels, num_bins, weights)
            sums = found if sums is None else _added(sums, found)
        if agreement is not None:
            agreement.add(probs, labels, weights)
        if table.kind == "multiclass" and not table.one_pass:
            cells.append(_cells(classes, labels, weights, num_bins, first_row=rows.start))
    sums = sparse.sums() if table.wide else sums
    if sums is None or not columns:
        raise InputError("`predictions` must hold at least one sample.")
    nll, brier, confidence, correct, entropy = (column.numpy() for column in columns)
    samples = Samples(
        confidence=confidence,
        correct=correct,
        entropy=entropy,
        nll=nll,
        brier=brier,
        stated=np.empty(0),
        happened=np.empty(0),
    )
    return samples, sums, agreement, cells


def _decisions(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Confidence, correctness and entropy of each decision, ``(n, D)``."""
    shape = (len(labels), -1)
    events = labels.shape == probs.shape
    if events:
        probs, labels = probs.reshape(-1), labels.reshape(-1)
    found, entropy = top_label(probs, labels), entropies(probs, events=events)
    return (
        found.confidence.reshape(shape),
        found.correct.to(torch.float64).reshape(shape),
        entropy.reshape(shape),
    )


def _cells(probs: Tensor, labels: Tensor, weights: Tensor | None, num_bins: int, *, first_row: int) -> Cells:
    """Entries above the lowest bin, with class * num_bins + bin as the cell."""
    rows, classes = torch.nonzero(probs > 1 / num_bins, as_tuple=True)
    stated = probs[rows, classes]
    residuals = (labels[rows] == classes).to(torch.float64) - stated
    if weights is not None:
        residuals *= weights[rows]
    cells = classes * num_bins + width_bin_index(stated, num_bins)
    return (rows + first_row).numpy(), cells.numpy(), residuals.numpy()


def _added(one: BinSums, other: BinSums) -> BinSums:
    """Add ``other`` to ``one`` in place."""
    return BinSums(
        one.edges,
        one.counts.add_(other.counts),
        one.confidences.add_(other.confidences),
        one.outcomes.add_(other.outcomes),
        total=one.total + other.total,
    )


def _classwise_errors(table: LabelledProbs, cells: list[Cells], num_bins: int) -> ClasswiseErrors | None:
    """The resampled class-wise error; None if every class is an event of its own."""
    if not cells:
        return None
    return ClasswiseErrors(
        *(np.concatenate(part) for part in zip(*cells, strict=True)),
        mass=table.mass,
        num_classes=table.num_classes,
        num_bins=num_bins,
        sums=table.residual_sums,
    )


def _rank_columns(table: LabelledProbs) -> tuple[tuple[float | None, ...], Vector, tuple[Events, ...]]:
    """AUROC of each class, the influences on their mean, and the event of a binary table or of each label."""
    influences: Vector = np.zeros(table.num_samples)
    if table.one_pass:  # each class would need a pass through the rows
        return (None,) * table.num_classes, influences, ()
    areas: list[float | None] = []
    events: list[Events] = []
    for k, stated in enumerate(table.columns()):
        positive = table.outcomes(k)
        area, influence = auroc_influence(stated, positive, table.weights) or (None, 0.0)
        areas.append(area)
        influences += influence
        if table.kind != "multiclass":
            events.append(Events(stated, positive.astype(np.float64), table.weights))
    influences /= max(1, len(areas) - areas.count(None))
    return tuple(areas * 2 if table.kind == "binary" else areas), influences, tuple(events)


def _class_rows(
    table: LabelledProbs, sums: BinSums, correct: Matrix, areas: tuple[float | None, ...]
) -> tuple[ClassRow, ...]:
    labels, mass = table.labels.numpy(), table.mass
    if labels.ndim == 1:
        counts = np.bincount(labels, minlength=table.num_classes)
        right = np.bincount(labels, mass * correct[:, 0], table.num_classes)
    else:
        counts, right = labels.sum(axis=0), mass @ (labels * correct)
    return class_rows(table.class_names, sums, counts, right, areas)


Judgeable: TypeAlias = Predictions | DensePredictions | PartitionedPredictions


class ArmSamples(ABC):
    """The test samples with the probabilities of one arm: in memory, or their sums."""

    @property
    def in_memory(self) -> Predictions | None:
        return None

    @property
    @abstractmethod
    def num_tested(self) -> int:
        """Number of samples, or of positions of images."""

    @property
    @abstractmethod
    def num_clusters(self) -> int | None:
        """Number of clusters, images or batches; None if samples are resampled."""

    @property
    def fingerprint(self) -> tuple[object, object] | None:
        """Hashes of samples and labels, and of batches; ``None`` in memory."""
        return None

    @property
    def telling(self) -> bool:
        """True if equal fingerprints mean the same samples."""
        return self.fingerprint is not None

    @abstractmethod
    def reduced(self, class_names: tuple[str, ...], metrics: Iterable[str]) -> ArmStatistics:
        """Statistics of the samples for an evaluation."""

    def group_rows(self, reduced: ArmStatistics, procedure: Procedure) -> tuple[GroupRow, ...]:  # noqa: ARG002
        """A row for each group of samples, if there are any."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """Predictions to evaluate and to fit on."""

    given: Judgeable
    calibration: Predictions | None = None  # samples to fit on, if they are no part of those given
    num_bins: int
    seed: int
    fits: bool  # whether anything is to be fitted

    reads: ClassVar[str] = ""  # noun for the data read in one pass for all arms; empty in memory

    @property
    def has_groups(self) -> bool:
        return False

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def split(self) -> Split:
        """Samples to fit on and test samples, or a few of these for warnings."""

    @abstractmethod
    def read(
        self,
        calibrators: Sequence[FittedCalibrator | None],
        split: Split | None = None,
        tell: Callable[[float], None] = lambda _: None,
    ) -> tuple[Sequence[ArmSamples], tuple[str, ...]]:
        """The test samples for each calibrator, and notes on them."""

    def familiar(self, split: Split) -> tuple[Predictions, Predictions, tuple[str, ...]]:
        """Test samples to compare others with, as given and in the form to evaluate, and notes."""
        return split.test_as_given, split.test, ()

    def with_groups(self) -> tuple[Predictions, tuple[str, ...]]:
        """Test samples with their groups, and a note if these are not all."""
        raise NotImplementedError
