"""Labelled probabilities, calibrated or not, by blocks: the whole table is never held in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from calibrant._math.scores import negative_log_likelihoods
from calibrant._math.shapes import Float, Int
from calibrant.evaluation.arguments import no_labels
from calibrant.evaluation.resampling.events import Indices, Matrix, Vector
from calibrant.evaluation.resampling.resamples import Counts, block_bounds
from calibrant.evaluation.thresholds import WIDE
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
        self.wide = predictions.kind == "multiclass" and (predictions.num_classes or 0) > WIDE
        self.labels: Int[Tensor, " N"] | Int[Tensor, "N C"] = predictions.labels
        self.weights: Vector | None = None if predictions.weights is None else predictions.weights.numpy()
        self.num_samples = predictions.num_samples
        self.num_classes = predictions.num_classes or 0
        self.class_names = predictions.class_names or tuple(str(k) for k in range(self.num_classes))

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
