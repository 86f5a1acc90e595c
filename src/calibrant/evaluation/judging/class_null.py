"""What chance does to the classes: mean probability of each against how often it occurs, and their error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.binning import BinSums, width_bin_index
from calibrant.evaluation.judging.labelled_probs import LabelledProbs
from calibrant.evaluation.resampling.drawn_labels import (
    ClassNull,
    ClassRowsBlock,
    class_scores,
    draw_labels,
)
from calibrant.evaluation.resampling.event_cells import Cells
from calibrant.evaluation.resampling.events import Events, Matrix, Vector
from calibrant.evaluation.resampling.inversion import num_noise
from calibrant.evaluation.resampling.null import NullDraws


def class_rows_of(table: LabelledProbs, num_bins: int) -> Iterator[ClassRowsBlock]:
    """The rows of a table, block by block."""
    for rows in table.row_blocks():
        probs = table.probs_of(rows)
        yield ClassRowsBlock(
            probs=probs.numpy(),
            bins=width_bin_index(probs, num_bins).numpy(),
            mass=np.ones(len(probs)) if table.weights is None else table.weights[rows],
        )


def null_of_classes(table: LabelledProbs, sums: BinSums, num_draws: int, seed: tuple[int, ...]) -> ClassNull:
    """Of classes that exclude each other: labels are drawn from whole rows.

    Where the scores are read in pieces, the class-wise error is not drawn: its sums would not fit into the
    memory, and would take several walks through the file.
    """
    num_classes = table.num_classes
    stated = sums.confidences.numpy() if not table.streamed else sums.confidences.sum(1, keepdim=True).numpy()
    num_bins = stated.shape[1]
    expected, variance = stated.sum(axis=1), np.zeros(num_classes)
    for rows in table.row_blocks():
        probs = table.probs_of(rows)
        mass = torch.ones(len(probs), dtype=torch.float64)
        if table.weights is not None:
            mass = torch.from_numpy(table.weights[rows])
        variance += (mass.square() @ (probs * (1 - probs))).numpy()
    cells, filled = _cells_of(sums, table.weights) if not table.streamed else (None, None)
    num_kept = 0 if cells is None else num_noise(cells.num_cells, num_draws)
    farthest: list[Vector] = []
    errors: list[Vector] = []
    noise: list[Matrix] = []
    for drawn in draw_labels(
        lambda: class_rows_of(table, num_bins),
        num_classes=num_classes,
        num_bins=num_bins,
        num_draws=num_draws,
        seed=seed,
    ):
        farthest.append(np.abs(class_scores(drawn.sum(axis=1), expected, variance)).max(axis=0))
        drawn -= stated[:, :, None]
        if filled is not None and num_kept:
            noise.append(drawn[filled][:, :num_kept].T / sums.total)
            num_kept -= len(noise[-1])
        errors.append(np.abs(drawn, out=drawn).sum(axis=(0, 1)) / (num_classes * sums.total))
    return ClassNull(
        scores=class_scores(sums.outcomes.sum(1).numpy(), expected, variance),
        farthest=np.concatenate(farthest),
        errors=None if table.streamed else np.concatenate(errors),
        cells=cells,
        noise=np.concatenate(noise) if noise else None,
    )


def _cells_of(sums: BinSums, weights: Vector | None) -> tuple[Cells, NDArray[np.bool_]]:
    """The bins of all classes that are not empty, and which of all these are ``(C, B)``."""
    num_classes, total = len(sums.counts), sums.total
    counts, stated, occurs = (part.numpy() for part in (sums.counts, sums.confidences, sums.outcomes))
    filled = counts > 0
    mass, mean = counts[filled], stated[filled] / counts[filled]
    share = 1.0 if weights is None else float((weights**2).sum() / weights.sum())  # per unit of weight
    squares = share * mass / total**2
    place = np.arange(len(mass))
    cells = Cells(
        cell=place,
        bin=place,
        mass=mass / total,
        residual=(occurs[filled] - stated[filled]) / total,
        variance=squares * mean * (1 - mean),  # a bin is narrow, but for what its own spread takes off
        tilt=squares * (1 - 2 * mean),
        squares=squares,
        num_cells=len(mass),
        num_bins=len(mass),
        total_squares=share / total,
        error=lambda each: np.abs(each).sum(axis=1) / num_classes,
    )
    return cells, filled


def null_of_events(events: Sequence[Events], drawn: Sequence[NullDraws]) -> ClassNull:
    """Of the event of a binary model, or of labels that are drawn each for itself."""
    weights = [np.ones_like(each.confidences) if each.weights is None else each.weights for each in events]
    expected = np.array([w @ each.confidences for w, each in zip(weights, events, strict=True)])
    happened = np.array([w @ each.outcomes for w, each in zip(weights, events, strict=True)])
    variance = np.array(
        [w**2 @ (each.confidences * (1 - each.confidences)) for w, each in zip(weights, events, strict=True)]
    )
    occurs: Matrix = np.array([draws.outcomes.sum(axis=0) for draws in drawn])
    return ClassNull(
        scores=class_scores(happened, expected, variance),
        farthest=np.abs(class_scores(occurs, expected, variance)).max(axis=0),
    )
