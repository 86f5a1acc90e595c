"""From predictions, calibrated or not, to the few numbers per sample that every metric is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from calibrant._math.binning import BinSums, binned, width_bin_index, width_column_sums
from calibrant._math.errors import InputError
from calibrant._math.scores import brier_scores, entropies, top_label
from calibrant.evaluation.judging.calibration_line import calibration_line
from calibrant.evaluation.judging.labelled_probs import Calibrate, LabelledProbs, with_complement
from calibrant.evaluation.judging.ranking import auroc_influence
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector
from calibrant.evaluation.resampling.intervals import effective_number
from calibrant.evaluation.resampling.statistics import ClasswiseErrors
from calibrant.evaluation.result import ClassRow
from calibrant.predictions import Predictions

HIGH_CONFIDENCE = 0.99
EVENT_ERRORS = ("ece", "adaptive_ece", "smce")  # also of the positive class, and with a null distribution
_MISSING_SCORES = (
    "nll",
    "brier",
    "classwise_ece",
    "auroc",
    "entropy",
    "entropy_correct",
    "entropy_incorrect",
)
_WHY_MISSING = "needs the probabilities of all classes; these predictions hold the predicted class's only"
_WHY_UNDEFINED = {
    "entropy_correct": "undefined: no prediction is right",
    "entropy_incorrect": "undefined: no prediction is wrong",
    "high_confidence_accuracy": f"undefined: no confidence reaches {HIGH_CONFIDENCE}",
    "auroc": "undefined: no class has both positive and negative samples",
}
WHY_STREAMED = {  # of scores that are read in pieces, and not held
    "auroc": "not computed: the scores are read in pieces, and ranking needs those of each class together",
    "classwise_ece": "no interval: the scores are read in pieces, not once for every resample",
}

Ratios = dict[str, tuple[Vector, Vector]]


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """What is kept of one arm; of the order of one number per decision."""

    weights: Vector | None
    ratios: Ratios
    """Metrics that are one weighted sum over the samples divided by another."""
    events: dict[str, tuple[Events, ...]]
    """By the prefix of the metrics' names: events whose calibration errors are averaged."""
    values: dict[str, float]
    reasons: dict[str, str]
    """Why a metric has no value."""
    influences: dict[str, Vector]
    """Of each sample on the metrics that have no replicates: AUROC, slope and intercept."""
    classwise: ClasswiseErrors | None = None
    classes: tuple[ClassRow, ...] = ()
    no_interval: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a metric that has a value is not resampled."""

    @property
    def num_samples(self) -> int:
        """How many rows there are."""
        return len(self.ratios["accuracy"][0])

    @property
    def effective_samples(self) -> float:
        """How many rows there are, or by their weights how many as good as equal ones."""
        return self.num_samples if self.weights is None else effective_number(self.weights)


def reduce_predictions(
    predictions: Predictions, num_bins: int, calibrate: Calibrate | None = None
) -> Reduced:
    """Judge every sample, after ``calibrate`` if there is one."""
    if predictions.kind == "top_label":
        return _reduce_top_label(predictions, num_bins)
    return _reduce_table(LabelledProbs(predictions, calibrate), num_bins)


def _reduce_top_label(predictions: Predictions, num_bins: int) -> Reduced:
    weights = None if predictions.weights is None else predictions.weights.numpy()
    top = Events(predictions.confidence.numpy(), predictions.correct.to(torch.float64).numpy(), weights)
    ratios = _decision_ratios(top.confidences[:, None], top.outcomes[:, None], None, weights)
    events = {"": (top,)}
    values, reasons = _values(ratios, events, num_bins)
    reasons |= dict.fromkeys(_MISSING_SCORES, _WHY_MISSING)
    influences = _add_lines(events, values, reasons)
    return Reduced(
        weights=weights,
        ratios=ratios,
        events=events,
        values=values,
        reasons=reasons,
        influences=influences,
    )


def _reduce_table(table: LabelledProbs, num_bins: int) -> Reduced:
    scan, ranks = _scan(table, num_bins), _rank(table)
    weights = table.weights
    ratios = _decision_ratios(scan.confidence, scan.correct, scan.entropy, weights)
    ratios |= _mean_ratios({"nll": scan.nll, "brier": scan.brier}, weights)
    events: dict[str, tuple[Events, ...]] = {"": ranks.events}
    if table.kind != "multilabel":
        events = {"": (Events(scan.confidence[:, 0], scan.correct[:, 0], weights),)}
    if table.kind == "binary":
        events["event_"] = ranks.events
    if table.kind != "multiclass":
        stated = np.mean([event.confidences for event in ranks.events], axis=0)
        happened = np.mean([event.outcomes for event in ranks.events], axis=0)
        ratios |= _mean_ratios({"mean_probability": stated, "prevalence": happened}, weights)
    values, reasons = _values(ratios, events, num_bins)
    class_errors = scan.sums.calibration_error("l1")
    values["classwise_ece"] = values["event_ece"] if table.kind == "binary" else float(class_errors.mean())
    influences = _add_lines(events, values, reasons)
    areas = [area for area in ranks.areas if area is not None]
    if areas:
        values["auroc"], influences["auroc"] = float(np.mean(areas)), ranks.influence
    else:
        reasons["auroc"] = WHY_STREAMED["auroc"] if table.streamed else _WHY_UNDEFINED["auroc"]
    return Reduced(
        weights=weights,
        ratios=ratios,
        events=events,
        values=values,
        reasons=reasons,
        classwise=_classwise_errors(table, scan, num_bins),
        influences=influences,
        classes=_class_rows(table, scan, class_errors.tolist(), ranks.areas),
        no_interval={"classwise_ece": WHY_STREAMED["classwise_ece"]} if table.streamed else {},
    )


def _decision_ratios(
    confidence: Matrix, correct: Matrix, entropy: Matrix | None, weights: Vector | None
) -> Ratios:
    """The metrics that are means over decisions ``(N, D)``, or over some of them."""
    every = np.ones_like(confidence)
    confident = (confidence >= HIGH_CONFIDENCE).astype(np.float64)
    means = {
        "accuracy": (correct, every),
        "mean_confidence": (confidence, every),
        "gap": (confidence - correct, every),
        "high_confidence_share": (confident, every),
        "high_confidence_accuracy": (confident * correct, confident),
    }
    if entropy is not None:
        means |= {
            "entropy": (entropy, every),
            "entropy_correct": (entropy * correct, correct),
            "entropy_incorrect": (entropy * (1 - correct), 1 - correct),
        }
    sums: dict[int, Vector] = {}  # most share their denominator, which is kept once

    def over_decisions(values: Matrix) -> Vector:
        return sums.setdefault(id(values), weighted(values.sum(axis=1), weights))

    return {name: (over_decisions(above), over_decisions(below)) for name, (above, below) in means.items()}


def _mean_ratios(scores: Mapping[str, Vector], weights: Vector | None) -> Ratios:
    """The metrics that are means over samples."""
    mass = weighted(np.ones_like(next(iter(scores.values()))), weights)
    return {name: (weighted(values, weights), mass) for name, values in scores.items()}


def weighted(values: Vector, weights: Vector | None) -> Vector:
    """Values times weights; a sample of weight zero does not count, even where its value is infinite."""
    return values if weights is None else np.where(weights > 0, values, 0.0) * weights


def _values(
    ratios: Ratios, events: Mapping[str, tuple[Events, ...]], num_bins: int
) -> tuple[dict[str, float], dict[str, str]]:
    """What the metrics are, and why some are not."""
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for name, (above, below) in ratios.items():
        infinite = int(np.isinf(above).sum())
        if infinite:
            samples = "1 sample gives its" if infinite == 1 else f"{infinite} samples give their"
            reasons[name] = f"infinite: {samples} true class probability 0"
        elif below.any():
            values[name] = float(above.sum() / below.sum())
        else:
            reasons[name] = _WHY_UNDEFINED[name]
    for prefix, group in events.items():
        for name, value in _binned_errors(group, num_bins).items():
            if not prefix or name in EVENT_ERRORS:
                values[prefix + name] = value
    return values, reasons


def _binned_errors(events: tuple[Events, ...], num_bins: int) -> dict[str, float]:
    """Calibration errors, averaged over the events."""
    from calibrant._math.lipschitz import smooth_calibration_error  # compiled

    errors: dict[str, list[float]] = {"ece": [], "adaptive_ece": [], "l2_ece": [], "mce": [], "smce": []}
    for event in events:
        confidences, outcomes = torch.from_numpy(event.confidences), torch.from_numpy(event.outcomes)
        weights = None if event.weights is None else torch.from_numpy(event.weights)
        width = binned(confidences, outcomes, num_bins=num_bins, binning="width", weights=weights)
        mass = binned(confidences, outcomes, num_bins=num_bins, binning="mass", weights=weights)
        errors["ece"].append(float(width.calibration_error("l1")))
        errors["adaptive_ece"].append(float(mass.calibration_error("l1")))
        errors["l2_ece"].append(float(width.calibration_error("l2")))
        errors["mce"].append(float(width.calibration_error("max")))
        errors["smce"].append(smooth_calibration_error(event.confidences, event.outcomes, event.weights))
    return {name: float(np.mean(each)) for name, each in errors.items()}


def _add_lines(
    events: Mapping[str, tuple[Events, ...]], values: dict[str, float], reasons: dict[str, str]
) -> dict[str, Vector]:
    """Add slope and intercept, averaged over the events that have them; their influences."""
    influences: dict[str, Vector] = {}
    for prefix, group in events.items():
        for name in ("slope", "intercept"):
            lines = [calibration_line(event, name) for event in group]
            found = [line for line in lines if not isinstance(line, str)]
            if found:
                values[prefix + name] = float(np.mean([line.value for line in found]))
                influences[prefix + name] = np.mean([line.influence for line in found], axis=0)
            else:
                reasons[prefix + name] = str(lines[0])
    return influences


@dataclass(frozen=True, kw_only=True)
class _Scan:
    """What one pass over the rows gives; decisions ``(N, D)`` are one per sample, or per sample and label."""

    nll: Vector
    brier: Vector
    confidence: Matrix
    correct: Matrix
    entropy: Matrix
    sums: BinSums
    """Bins of every class or label."""
    cells: list[tuple[Indices, Indices, Vector]]
    """Class probabilities above the lowest bin: row, class * num_bins + bin, weighted residual."""


def _scan(table: LabelledProbs, num_bins: int) -> _Scan:
    # Nothing small is kept from block to block: between large ones it would leave the memory in pieces.
    columns: list[Tensor] = []
    sums: BinSums | None = None
    cells: list[tuple[Indices, Indices, Vector]] = []
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
        found = width_column_sums(classes, labels, num_bins, weights)
        sums = found if sums is None else _added(sums, found)
        if table.kind == "multiclass" and not table.streamed:
            cells.append(_cells(classes, labels, weights, num_bins, first_row=rows.start))
    if sums is None:
        raise InputError("`predictions` must hold at least one sample to judge.")
    nll, brier, confidence, correct, entropy = (column.numpy() for column in columns)
    return _Scan(
        nll=nll,
        brier=brier,
        confidence=confidence,
        correct=correct,
        entropy=entropy,
        sums=sums,
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
    """The bins of both; those of the first are used up."""
    return BinSums(
        one.edges,
        one.counts.add_(other.counts),
        one.confidences.add_(other.confidences),
        one.outcomes.add_(other.outcomes),
        total=one.total + other.total,
    )


def _classwise_errors(table: LabelledProbs, scan: _Scan, num_bins: int) -> ClasswiseErrors | None:
    """For resampling; not needed where every class is an event of its own."""
    if not scan.cells:
        return None
    rows, cells, residuals = (np.concatenate(part) for part in zip(*scan.cells, strict=True))
    return ClasswiseErrors(
        rows,
        cells,
        residuals,
        mass=np.ones(table.num_samples) if table.weights is None else table.weights,
        num_classes=table.num_classes,
        num_bins=num_bins,
        sums=table.residual_sums,
    )


@dataclass(frozen=True, kw_only=True)
class _Ranks:
    """What the probabilities of one class over all samples give."""

    areas: tuple[float | None, ...]
    influence: Vector
    events: tuple[Events, ...]
    """The event of a binary table, or one per label."""


def _rank(table: LabelledProbs) -> _Ranks:
    if table.streamed:  # each class would need a pass through the file
        return _Ranks(areas=(None,) * table.num_classes, influence=np.zeros(table.num_samples), events=())
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
    return _Ranks(areas=tuple(areas), influence=influences / max(1, defined), events=tuple(events))


def _class_rows(
    table: LabelledProbs, scan: _Scan, errors: list[float], areas: tuple[float | None, ...]
) -> tuple[ClassRow, ...]:
    """One row per class or label."""
    labels = table.labels.numpy()
    mass = np.ones(table.num_samples) if table.weights is None else table.weights
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
