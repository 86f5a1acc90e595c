"""One pass over the rows of a table of probabilities, and one over its columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from calibrant._math.binning import BinSums, SparseColumnSums, width_bin_index, width_column_sums
from calibrant._math.errors import InputError
from calibrant._math.scores import brier_scores, entropies, top_label
from calibrant._math.shapes import Float, Int
from calibrant.evaluation.judging.labelled_probs import LabelledProbs, with_complement
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector
from calibrant.evaluation.resampling.ranking import auroc_influence
from calibrant.evaluation.resampling.resamples import ClasswiseErrors
from calibrant.evaluation.result import ClassRow

OFFSETS = (-1, 0, 1)


@dataclass
class Agreement:
    """Sums over the samples, by their weights."""

    num_classes: int
    hits: dict[int, float] = field(default_factory=lambda: dict.fromkeys(OFFSETS, 0.0))
    """Where the predicted class is the label plus that number."""
    total: float = 0.0
    predicted: Tensor = field(init=False)
    occurred: Tensor = field(init=False)
    variance: Tensor = field(init=False)
    """The variance of how often each class occurs, if what is stated is true."""

    def __post_init__(self) -> None:
        self.predicted = torch.zeros(self.num_classes, dtype=torch.float64)
        self.occurred = torch.zeros(self.num_classes, dtype=torch.float64)
        self.variance = torch.zeros(self.num_classes, dtype=torch.float64)

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
        """Share of samples whose predicted class is the label plus this number."""
        return self.hits[offset] / self.total

    @property
    def by_chance(self) -> float:
        """Expected agreement of independent predictions and labels."""
        return float(self.predicted @ self.occurred) / self.total**2


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Result of one pass over the rows; decisions ``(N, D)`` are one per sample, or per sample and label."""

    nll: Vector
    brier: Vector
    confidence: Matrix
    correct: Matrix
    entropy: Matrix
    sums: BinSums
    """Bins of every class or label."""
    agreement: Agreement | None
    """How predicted classes and labels agree, where classes exclude each other."""
    cells: list[tuple[Indices, Indices, Vector]]
    """Class probabilities above the lowest bin: row, class * num_bins + bin, weighted residual."""


def scan_rows(table: LabelledProbs, num_bins: int) -> Scan:
    # Nothing small is kept from block to block: between large ones it would leave the memory in pieces.
    columns: list[Tensor] = []
    sums: BinSums | None = None
    cells: list[tuple[Indices, Indices, Vector]] = []
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
    return Scan(
        nll=nll,
        brier=brier,
        confidence=confidence,
        correct=correct,
        entropy=entropy,
        sums=sums,
        agreement=agreement,
        cells=cells,
    )


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


def _cells(
    probs: Tensor, labels: Tensor, weights: Tensor | None, num_bins: int, *, first_row: int
) -> tuple[Indices, Indices, Vector]:
    """Entries above the lowest bin: row, class * num_bins + bin, weighted residual."""
    rows, classes = torch.nonzero(probs > 1 / num_bins, as_tuple=True)
    stated = probs[rows, classes]
    residuals = (labels[rows] == classes).to(torch.float64) - stated
    if weights is not None:
        residuals *= weights[rows]
    cells = classes * num_bins + width_bin_index(stated, num_bins)
    return (rows + first_row).numpy(), cells.numpy(), residuals.numpy()


def _added(one: BinSums, other: BinSums) -> BinSums:
    """Sum of both, in place in the first."""
    return BinSums(
        one.edges,
        one.counts.add_(other.counts),
        one.confidences.add_(other.confidences),
        one.outcomes.add_(other.outcomes),
        total=one.total + other.total,
    )


def classwise_errors(table: LabelledProbs, scan: Scan, num_bins: int) -> ClasswiseErrors | None:
    """The resampled class-wise error; None if every class is an event of its own."""
    if not scan.cells:
        return None
    rows, cells, residuals = (np.concatenate(part) for part in zip(*scan.cells, strict=True))
    return ClasswiseErrors(
        rows,
        cells,
        residuals,
        mass=table.mass,
        num_classes=table.num_classes,
        num_bins=num_bins,
        sums=table.residual_sums,
    )


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """Ranking of all samples by the probability of each class."""

    areas: tuple[float | None, ...]
    influence: Vector
    events: tuple[Events, ...]  # the event of a binary table, or one per label


def rank_columns(table: LabelledProbs) -> ClassScores:
    if table.one_pass:  # each class would need a pass through the rows
        return ClassScores(
            areas=(None,) * table.num_classes, influence=np.zeros(table.num_samples), events=()
        )
    areas: list[float | None] = []
    influences: Vector = np.zeros(table.num_samples)
    events: list[Events] = []
    for k, stated in enumerate(table.columns()):
        positive = table.outcomes(k)
        found = auroc_influence(stated, positive, table.weights)
        areas.append(None if found is None else found[0])
        if found is not None:
            influences += found[1]
        if table.kind != "multiclass":
            events.append(Events(stated, positive.astype(np.float64), table.weights))
    defined = len(areas) - areas.count(None)
    if table.kind == "binary":
        areas = areas * 2  # class 0 is ranked as well as class 1
    return ClassScores(areas=tuple(areas), influence=influences / max(1, defined), events=tuple(events))


def class_rows(
    table: LabelledProbs, scan: Scan, errors: list[float], areas: tuple[float | None, ...]
) -> tuple[ClassRow, ...]:
    labels = table.labels.numpy()
    mass = table.mass
    if labels.ndim == 1:
        counts = np.bincount(labels, minlength=table.num_classes)
        occurs = np.bincount(labels, mass, table.num_classes)
        found = np.bincount(labels, mass * scan.correct[:, 0], table.num_classes)
    else:
        counts, occurs, found = labels.sum(axis=0), mass @ labels, mass @ (labels * scan.correct)
    total = scan.sums.total
    return tuple(
        ClassRow(
            name=name,
            count=int(counts[k]),
            mean_probability=float(scan.sums.confidences[k].sum()) / total,
            prevalence=float(scan.sums.outcomes[k].sum()) / total,
            ece=errors[k],
            auroc=areas[k],
            accuracy=float(found[k] / occurs[k]) if occurs[k] > 0 else None,
        )
        for k, name in enumerate(table.class_names)
    )
