"""All classes of a table: probabilities by blocks, and draws under calibration or from a model at a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from calibrant._math.binning import BinSums, width_bin_index
from calibrant._math.errors import InputError
from calibrant._math.scores import negative_log_likelihoods
from calibrant._math.shapes import Float, Int
from calibrant.evaluation.arguments import WIDE, Procedure, is_wide, names_of, no_labels
from calibrant.evaluation.judging.at_limit import MOST_GAPS, ClusteredError, ErrorModels
from calibrant.evaluation.resampling.event_cells import ResidualSums
from calibrant.evaluation.resampling.events import (
    Clustered,
    Events,
    Indices,
    Matrix,
    SignedSums,
    Vector,
    cluster_totals,
    indicator,
)
from calibrant.evaluation.resampling.null import (
    ClassNull,
    ClassRowsBlock,
    NullDraws,
    class_scores,
    class_tilts,
    draw_labels,
    farthest_scores,
    num_noise,
)
from calibrant.evaluation.resampling.resamples import Counts, Stream, block_bounds, stream_seed
from calibrant.evaluation.result import ClassRow
from calibrant.predictions import Kind, Predictions

ROW_BLOCK = 1 << 20  # elements of a block of rows: 8 MiB
WIDE_BLOCK = 1 << 21  # of wide rows
_UNSURE_LOSS = 15.0  # of one label; from the probability of an event, two in a billion off at most
COLUMN_BLOCK = 1 << 24  # elements of a block of columns, to read a class for all samples: 128 MiB

Calibrate = Callable[[Tensor], Tensor]  # scores of some rows to their probabilities in float64


def with_complement(probs: Tensor) -> Float[Tensor, "n C"]:
    """Columns of both classes if only the probability of one event is given."""
    return probs if probs.ndim == 2 else torch.stack([1 - probs, probs], dim=1)


class LabelledProbs:
    """Labels, weights and probabilities, the latter after ``calibrate`` if there is one."""

    def __init__(self, predictions: Predictions, calibrate: Calibrate | None = None) -> None:
        if predictions.labels is None:
            raise no_labels(predictions)
        self._predictions = predictions
        self._calibrate = calibrate
        self.kind: Kind = predictions.kind
        self.streamed = predictions.streamed
        self.wide = is_wide(predictions)
        self.labels: Int[Tensor, " N"] | Int[Tensor, "N C"] = predictions.labels
        self.weights: Vector | None = None if predictions.weights is None else predictions.weights.numpy()
        self.num_samples = predictions.num_samples
        self.num_classes = predictions.num_classes or 0
        self.class_names = names_of(predictions)

    @property
    def mass(self) -> Vector:
        return np.ones(self.num_samples) if self.weights is None else self.weights

    @property
    def one_pass(self) -> bool:
        """True if rows are read once, and nothing is kept of single entries."""
        return self.streamed or self.wide

    def row_blocks(self) -> Iterator[slice]:
        size = WIDE_BLOCK if self.wide else ROW_BLOCK
        return (slice(a, b) for a, b in block_bounds(self.num_samples, size // self.num_classes))

    def in_order(self, order: Indices) -> Iterator[tuple[Indices, Float[Tensor, "n C"]]]:
        """Probabilities of all rows in this order, block by block, with the rows' numbers."""
        size = max(2, WIDE_BLOCK // self.num_classes)
        starts = range(0, max(1, len(order) - 1), size)  # a last row alone goes with those before it
        for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
            rows = order[start:stop]
            some = self._predictions.rows(rows)
            yield rows, some.probs if self._calibrate is None else self._calibrate(some.scores)

    def probs_of(self, rows: slice) -> Float[Tensor, " n"] | Float[Tensor, "n C"]:
        if self._calibrate is None:
            return self._predictions.probs_of(rows)
        return self._calibrate(self._predictions.scores_of(rows))

    def log_losses(self, rows: slice, probs: Tensor) -> Float[Tensor, " n"]:
        """Negative log-likelihoods of rows; from the raw logits if their probabilities have lost digits."""
        labels = self.labels[rows]
        losses = negative_log_likelihoods(probs, labels)
        lost = losses > _UNSURE_LOSS * len(labels) / max(labels.numel(), 1)  # of several labels the mean
        if self._calibrate is not None or self._predictions.space != "logits" or not bool(lost.any()):
            return losses
        logits, labels = self._predictions.scores_of(rows)[lost].to(torch.float64), labels[lost]
        if self.kind == "multiclass":
            exact = functional.cross_entropy(logits, labels, reduction="none")
        else:
            each = functional.softplus(torch.where(labels == 1, -logits, logits))
            exact = each.reshape(len(each), -1).mean(dim=1)
        losses[lost] = exact
        return losses

    def outcomes(self, column: int) -> NDArray[np.bool_]:
        """Outcomes ``(N,)`` of one class or label; class 1 for an event."""
        if self.kind == "multiclass":
            return (self.labels == column).numpy()
        return (self.labels.reshape(self.num_samples, -1)[:, column] == 1).numpy()

    def columns(self) -> Iterator[Vector]:
        """Probabilities ``(N,)`` of each class or label in turn; class 1 for an event."""
        if self.kind == "binary":
            yield torch.cat([self.probs_of(rows) for rows in self.row_blocks()]).numpy()
            return
        for start, stop in block_bounds(self.num_classes, COLUMN_BLOCK // self.num_samples):
            block = torch.empty((stop - start, self.num_samples), dtype=torch.float64)
            for rows in self.row_blocks():
                block[:, rows] = self.probs_of(rows)[:, start:stop].T
            yield from block.numpy()

    def residual_sums(self, counts: Counts) -> Matrix:
        """Outcome minus probability ``(r, C)``, summed over resampled ``counts`` ``(r, N)``."""
        total = torch.zeros((len(counts), self.num_classes), dtype=torch.float64)
        for rows in self.row_blocks():
            residuals = -self.probs_of(rows)
            residuals[torch.arange(len(residuals)), self.labels[rows]] += 1
            if self.weights is not None:
                residuals *= torch.from_numpy(self.weights[rows, None])
            total.addmm_(torch.from_numpy(counts[:, rows]).to(torch.float64), residuals)
        return total.numpy()


STEPS = 40  # of a search by false position, which takes four to eight
NEAR = 1e-6  # of the limit, as a share of it

Truth = Callable[[Matrix, Indices], Matrix]  # stated probabilities and bins of rows to true ones ``(n, C)``


@dataclass(frozen=True)
class ClassTable:
    """Probabilities of classes that exclude each other, and their sums over classes and bins."""

    table: LabelledProbs
    sums: BinSums
    variance: Tensor  # of the frequency of each class ``(C,)`` under calibration
    clusters: Indices | None = None  # cluster number of each row; None: independent

    @property
    def num_classes(self) -> int:
        return self.table.num_classes

    def rows(self, num_bins: int, truth: Truth | None = None) -> Iterator[ClassRowsBlock]:
        """Rows block by block; labels are drawn from ``truth``, or else the stated probabilities."""
        table = self.table
        for rows in table.row_blocks():
            probs = table.probs_of(rows)
            stated, bins = probs.numpy(), width_bin_index(probs, num_bins).numpy()
            yield ClassRowsBlock(
                probs=stated if truth is None else truth(stated, bins),
                stated=stated,
                bins=bins,
                mass=np.ones(len(probs)) if table.weights is None else table.weights[rows],
            )

    def null(self, num_draws: int, seed: tuple[int, ...], level: float) -> ClassNull:
        """Null distribution of the classes, from labels drawn per row; rows read once are not drawn."""
        variance, clusters = self.variance.numpy(), None
        if self.clusters is not None and self.table.one_pass:
            variance = np.maximum(variance, variance_by_cluster(self.table, self.clusters))
        elif self.clusters is not None:
            clusters = ClassClusters.of(self.table, self.clusters, self.bins.filled)
            variance = np.maximum(variance, clusters.class_variance(self.bins.starts))
        if self.table.one_pass:
            return self.bins.not_drawn(variance)
        counts = self._draw(None, num_draws, seed)
        there = self.bins.stated[:, None]
        independent = ((drawn, drawn - there) for drawn in counts)
        return self.bins.null(independent, variance, num_draws, seed, level, clusters)

    def error_models(self, found: float, procedure: Procedure) -> ErrorModels:
        seed = stream_seed(procedure.seed, Stream.NULL)
        if self.clusters is None:
            return ClasswiseModels(self, found, procedure.num_draws, seed)
        null = self.null(procedure.num_draws, seed, (1 + procedure.level) / 2)
        if null.cells is None or null.noise is None:
            why = (
                "the scores are read in pieces" if self.table.streamed else f"there are over {WIDE:,} classes"
            )
            raise InputError(
                f"classwise_ece cannot be checked with clusters, because {why}; check ece instead."
            )
        return ClusteredError(null.cells, null.noise, procedure.seed)

    @cached_property
    def bins(self) -> ClassBins:
        weights = self.table.weights
        return ClassBins(self.sums, 1.0 if weights is None else float((weights**2).sum() / weights.sum()))

    def draw_errors(self, truth: Truth, num_draws: int, seed: tuple[int, ...]) -> Vector:
        errors, there = self.bins.errors, self.bins.stated[:, None]
        return np.concatenate([errors(drawn - there) for drawn in self._draw(truth, num_draws, seed)])

    def error_of(self, truth: Truth) -> float:
        """The class-wise error of the stated probabilities under this truth."""
        num_bins = self.sums.confidences.shape[1]
        residuals = np.zeros(self.num_classes * num_bins)
        for block in self.rows(num_bins, truth):
            cells = block.bins + num_bins * np.arange(self.num_classes)
            excess = (block.probs - block.stated) * block.mass[:, None]
            residuals += np.bincount(cells.ravel(), excess.ravel(), minlength=len(residuals))
        return float(np.abs(residuals).sum()) / (self.num_classes * self.sums.total)

    def as_observed(self, t: float) -> Truth:
        """The stated probabilities plus ``t`` times the gap of each class and bin."""
        counts = self.sums.counts
        gaps = torch.where(counts > 0, (self.sums.outcomes - self.sums.confidences) / counts, 0.0).numpy()
        classes = np.arange(self.num_classes)

        def truth(stated: Matrix, bins: Indices) -> Matrix:
            moved = np.maximum(stated + t * gaps[classes, bins], 0.0)
            total = moved.sum(axis=1, keepdims=True)
            return np.divide(moved, total, out=stated.copy(), where=total > 0)

        return truth

    def furthest_away(self, t: float) -> Truth:
        """Move the share ``t`` of each row to its least likely class."""

        def truth(stated: Matrix, _: Indices) -> Matrix:
            moved = (1 - t) * stated
            moved[np.arange(len(moved)), stated.argmin(axis=1)] += t
            return moved

        return truth

    def at(self, error: float, family: Callable[[float], Truth], *, most: float = 1.0) -> Truth:
        """The truth of a family with this class-wise error, or the one at ``most`` if none is as far."""
        if error <= 0:
            return family(0.0)

        def excess(t: float) -> float:
            return self.error_of(family(t)) - error

        low, below, high = 0.0, -error, 1.0
        above = excess(high)
        while above < 0 and high < most:
            low, below, high = high, above, 2 * high
            above = excess(high)
        if above < 0:  # it cannot be reached
            return family(high)
        moved_low: bool | None = None
        for _ in range(STEPS):
            middle = low + (high - low) * below / (below - above)
            found = excess(middle)
            if abs(found) <= NEAR * error:
                return family(middle)
            # Illinois: if an end moves twice in a row, the other one counts half, so that it moves next.
            if found < 0:
                low, below, above = middle, found, above / 2 if moved_low is True else above
            else:
                high, above, below = middle, found, below / 2 if moved_low is False else below
            moved_low = found < 0
        return family((low + high) / 2)

    def _draw(self, truth: Truth | None, num_draws: int, seed: tuple[int, ...]) -> Iterator[Matrix]:
        filled = self.bins.filled
        rarest_last = np.argsort(-self.sums.confidences.sum(dim=1).numpy(), kind="stable")
        return draw_labels(
            lambda: self.rows(filled.shape[1], truth), filled, rarest_last, num_draws=num_draws, seed=seed
        )


@dataclass(frozen=True)
class ClassBins:
    """Sums over the bins of classes that exclude each other, of which M hold anything."""

    sums: BinSums
    share: float
    """The squared weights of the samples, per unit of weight."""

    @cached_property
    def filled(self) -> NDArray[np.bool_]:
        """Mask ``(C, B)`` of the filled bins."""
        return self.sums.counts.numpy() > 0

    @cached_property
    def starts(self) -> Indices:
        """First filled bin of each class among all filled ones ``(C,)``."""
        return np.append(0, np.cumsum(self.filled.sum(axis=1))[:-1])

    @cached_property
    def stated(self) -> Vector:
        """The sum of the probabilities in each filled bin ``(M,)``."""
        return self.sums.confidences.numpy()[self.filled]

    def errors(self, residuals: Matrix) -> Vector:
        """Class-wise errors of residual sums ``(M, r)``."""
        return np.abs(residuals).sum(axis=0) / (len(self.filled) * self.sums.total)

    def cells(self, order: Indices | slice = slice(None)) -> ResidualSums:
        num_classes, total = len(self.filled), self.sums.total
        sums = self.sums.counts, self.sums.outcomes, self.sums.confidences
        mass, occurs, stated = (each.numpy()[self.filled][order] for each in sums)
        mean, place = stated / mass, np.arange(len(mass))
        squares = self.share * mass / total**2
        return ResidualSums(
            cell=place,
            bin=place,
            mass=mass / total,
            residual=(occurs - stated) / total,
            variance=squares * mean * (1 - mean),  # within a narrow bin probabilities hardly differ
            tilt=squares * (1 - 2 * mean),
            squares=squares,
            num_cells=len(mass),
            num_bins=len(mass),
            total_squares=self.share / total,
            error=lambda each: np.abs(each).sum(axis=1) / num_classes,
            per_size=1 / num_classes,
        )

    def not_drawn(self, variance: Vector) -> ClassNull:
        """The distances of the classes, whose numbers vary by ``variance`` ``(C,)`` under calibration."""
        expected, occurs = (each.numpy().sum(axis=1) for each in (self.sums.confidences, self.sums.outcomes))
        scores = class_scores(occurs, expected, variance)
        return ClassNull(scores=scores, deviations=np.sqrt(variance) / self.sums.total)

    def null(
        self,
        independent: Iterable[tuple[Matrix, Matrix]],
        variance: Vector,
        num_draws: int,
        seed: tuple[int, ...],
        level: float,
        clusters: ClassClusters | None,
        tilted: Vector | None = None,
    ) -> ClassNull:
        """The null from ``independent`` draws of counts and residual sums ``(M, r)``, with noise of clusters.

        ``tilted`` is the variance of each bin by which slopes are weighted, if it is not the independent one.
        """
        cells, starts, total = self.cells(), self.starts, self.sums.total
        order = np.lexsort((cells.residual, cells.mass))  # so that draws ignore how classes are numbered
        expected, own = self.sums.confidences.numpy().sum(axis=1), cells.variance * total**2
        mean = self.stated / self.sums.counts.numpy()[self.filled]
        tilts = class_tilts(own if tilted is None else tilted, mean, starts, expected / self.share)
        signed = None if clusters is None else SignedSums(clusters.residuals, own, seed)
        num_kept = num_noise(cells.num_cells, num_draws, level)
        farthest, steepest, errors = list[Vector](), list[Vector](), list[Vector]()
        noise, masses = list[Matrix](), list[Matrix]()
        for counts, residuals in independent:
            if clusters is not None and signed is not None:
                residuals, signs = signed.draw(residuals)
                counts = residuals + self.stated[:, None]
                masses.append((clusters.masses[order] @ signs[:, :num_kept]).T)
            farthest.append(farthest_scores(np.add.reduceat(counts, starts), expected, variance))
            errors.append(self.errors(residuals))
            steepest.append(np.abs(np.add.reduceat(tilts[:, None] * residuals, starts)).max(axis=0))
            noise.append(residuals[order, :num_kept].T / total)
            num_kept -= len(noise[-1])
        steep = float(np.abs(np.add.reduceat(tilts * cells.residual * total, starts)).max())
        cells = self.cells(order)
        if clusters is not None:
            of_clusters = clusters.residuals[order] / total, clusters.masses[order] / total
            cells = replace(cells, clustered=Clustered.of(*of_clusters, np.concatenate(masses) / total))
        return replace(
            self.not_drawn(variance),
            farthest=np.concatenate(farthest),
            steepest=(steep, np.concatenate(steepest)),
            errors=np.concatenate(errors),
            cells=cells,
            noise=np.concatenate(noise),
        )


def class_rows(
    names: Sequence[str], sums: BinSums, counts: Any, right: Any, areas: Sequence[float | None]
) -> tuple[ClassRow, ...]:
    """A row for each class, from the sums over its bins, its number of samples, and the weight of hits."""
    errors, total = sums.calibration_error("l1").tolist(), sums.total
    stated, occurs = (each.sum(dim=1).tolist() for each in (sums.confidences, sums.outcomes))
    return tuple(
        ClassRow(
            name=name,
            count=int(counts[k]),
            mean_probability=stated[k] / total,
            prevalence=occurs[k] / total,
            ece=errors[k],
            auroc=areas[k],
            accuracy=float(right[k]) / occurs[k] if occurs[k] > 0 else None,
        )
        for k, name in enumerate(names)
    )


class ClasswiseModels(ErrorModels):
    """Models of the class-wise error whose labels are drawn from whole rows."""

    def __init__(self, classes: ClassTable, found: float, num_draws: int, seed: tuple[int, ...]) -> None:
        self.observed, self.num_draws = found, num_draws
        self._classes, self._seed = classes, seed

    @property
    def greatest(self) -> float:
        return self._classes.error_of(self._classes.furthest_away(1.0))

    def as_found(self, error: float, number: int) -> Vector:
        truth = self._classes.at(error, self._classes.as_observed, most=MOST_GAPS)
        return self._classes.draw_errors(truth, number, self._seed)

    def furthest(self, error: float, number: int) -> Vector:
        truth = self._classes.at(error, self._classes.furthest_away)
        return self._classes.draw_errors(truth, number, self._seed)


def null_of_events(events: Sequence[Events], drawn: Sequence[NullDraws]) -> ClassNull:
    """The null of a binary model's event, or of labels that are drawn separately."""
    expected = np.array([each.mass @ each.confidences for each in events])
    happened = np.array([each.mass @ each.outcomes for each in events])
    variance = np.array([_variance(each) for each in events])
    occurs: Matrix = np.array([draws.outcomes.sum(axis=0) for draws in drawn])
    return ClassNull(
        scores=class_scores(happened, expected, variance),
        deviations=np.sqrt(variance) / [each.mass.sum() for each in events],
        farthest=farthest_scores(occurs, expected, variance),
    )


def _variance(event: Events) -> float:
    """Variance of an event's frequency over samples or clusters, whichever is larger."""
    independent = float(event.squared_mass @ (event.confidences * (1 - event.confidences)))
    if event.clusters is None:
        return independent
    totals = cluster_totals(event.mass * (event.outcomes - event.confidences), event.clusters)
    return max(independent, float(totals @ totals))


@dataclass(frozen=True)
class ClassClusters:
    """Sparse sums of each cluster over the filled bins of classes ``(M, G)``."""

    residuals: Any
    masses: Any

    @classmethod
    def of(cls, table: LabelledProbs, codes: Indices, filled: NDArray[np.bool_]) -> ClassClusters:
        from scipy.sparse import csr_array

        num_classes, num_bins = filled.shape
        places = np.cumsum(filled).reshape(filled.shape) - 1
        shape = (int(filled.sum()), int(codes.max()) + 1)
        classes = np.arange(num_classes)
        residuals: Any = csr_array(shape)
        masses: Any = csr_array(shape)
        for rows in table.row_blocks():
            probs = table.probs_of(rows)
            bins, stated = width_bin_index(probs, num_bins).numpy(), probs.numpy()
            labels = table.labels[rows].numpy()
            weight = np.ones(len(stated)) if table.weights is None else table.weights[rows]
            where = (places[classes, bins].ravel(), np.repeat(codes[rows], num_classes))
            excess = (labels[:, None] == classes) - stated
            residuals = residuals + csr_array(((weight[:, None] * excess).ravel(), where), shape=shape)
            masses = masses + csr_array((np.repeat(weight, num_classes), where), shape=shape)
        return cls(residuals.tocsr(), masses.tocsr())

    def class_variance(self, starts: Indices) -> Vector:
        """Variance of each class's frequency ``(C,)``; ``starts`` are the classes' first bins."""
        of_classes = np.zeros(self.residuals.shape[0], np.int64)
        of_classes[starts[1:]] = 1
        totals = indicator(np.cumsum(of_classes)).T @ self.residuals
        return np.asarray(totals.power(2).sum(axis=1)).ravel()


def variance_by_cluster(table: LabelledProbs, codes: Indices) -> Vector:
    """Variance of each class's frequency ``(C,)``, cluster by cluster to bound memory."""
    total = torch.zeros(table.num_classes, dtype=torch.float64)
    current, number = torch.zeros_like(total), -1
    order = np.argsort(codes, kind="stable")
    for rows, probs in table.in_order(order):
        residuals = -probs
        residuals[torch.arange(len(rows)), table.labels[torch.from_numpy(rows)]] += 1
        if table.weights is not None:
            residuals *= torch.from_numpy(table.weights[rows, None])
        numbers, starts = np.unique(codes[rows], return_index=True)
        for each, first, last in zip(numbers.tolist(), starts, [*starts[1:], len(rows)], strict=True):
            if each != number:
                total += current.square()
                current, number = torch.zeros_like(total), each
            current += residuals[first:last].sum(dim=0)
    return (total + current.square()).numpy()
