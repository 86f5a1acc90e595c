"""Where test sets are drawn from, and the errors that these populations have.

Instead of outcomes their true probabilities are set against what is stated, so that a calibrated population
has errors of exactly zero and the others are exact but for which confidences were drawn.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import softmax

from calibrant._math.errors import InputError
from calibrant.evaluation.arguments import as_judged
from calibrant.evaluation.judging.class_table import with_complement
from calibrant.evaluation.quantities import find
from calibrant.evaluation.resampling.events import Matrix, Vector, width_bins
from calibrant.predictions import Predictions, load_predictions

Stated: TypeAlias = Literal["as in the file", "the truth"]
Errors: TypeAlias = dict[str, float]
BLOCK = 10_000_000  # probabilities held at once
CELLS = 2000  # of score, for the smooth error with a kernel
MOST_PROBABILITIES = 30_000_000  # drawn for a true error
MERGED = 0.4  # of the rows in which another model cannot tell two classes apart
_PLACES = np.linspace(-14.0, 14.0, 561)  # log-odds


def draw_labels(truth: Matrix, rng: np.random.Generator) -> Vector:
    below = truth.cumsum(axis=1) < rng.random((len(truth), 1))
    return np.minimum(below.sum(axis=1), truth.shape[1] - 1)


def normal(size: tuple[int, int], spread: float, rng: np.random.Generator) -> tuple[Matrix, Vector]:
    """Normal logits, whose softmax is the truth, and labels drawn from them."""
    logits = spread * rng.normal(size=size)
    return logits, draw_labels(softmax(logits, axis=1), rng)


def coarser(logits: Matrix, rng: np.random.Generator) -> Matrix:
    """What a model knows that cannot tell the two likeliest classes apart in two rows of five.

    Both get the mean of their probabilities, so that it is as calibrated as the one with these logits, and
    right less often.
    """
    probs = softmax(logits, axis=1)
    rows = np.flatnonzero(rng.random(len(probs)) < MERGED)
    top = np.argsort(-probs[rows], axis=1)[:, :2]
    probs[rows[:, None], top] = np.take_along_axis(probs[rows], top, axis=1).mean(axis=1, keepdims=True)
    return np.log(probs)


def stated(logits: Matrix, labels: Vector, scale: float) -> Predictions:
    """Predictions that state these logits times a scale; of two classes, the log-odds of the second."""
    if logits.shape[1] == 2:
        return Predictions(logits=scale * (logits[:, 1] - logits[:, 0]), labels=labels)
    return Predictions(logits=scale * logits, labels=labels)


@dataclass(frozen=True)
class Redrawn:
    """Rows of real predictions and what is taken for the truth ``(M, C)``."""

    stated: Matrix
    truth: Matrix

    def draw(self, num_samples: int, rng: np.random.Generator) -> Predictions:
        rows = rng.integers(0, len(self.stated), num_samples)
        probs, labels = self.stated[rows], draw_labels(self.truth[rows], rng)
        return Predictions(probs=probs[:, 1] if probs.shape[1] == 2 else probs, labels=labels)


@cache
def redrawn(path: Path, bandwidth: float, what: Stated) -> Redrawn:
    """The test half of a file, with the truth smoothed from the outcomes of its calibration half."""
    predictions = as_judged(load_predictions(path))
    learnt, test = predictions.calibration, predictions.test
    probs, rows = (with_complement(part.probs_of(slice(None))).numpy() for part in (learnt, test))
    if learnt.labels is None:
        raise InputError(f"{path} holds no labels.")
    truth = smoothed(probs, learnt.labels.numpy(), rows, bandwidth)
    return Redrawn(stated=rows if what == "as in the file" else truth, truth=truth)


def smoothed(probs: Matrix, labels: Vector, rows: Matrix, bandwidth: float) -> Matrix:
    """The rows moved by the mean residual of each class near their log-odds, and made to sum to one.

    The residual, outcome minus probability, is averaged by a Gaussian kernel over log-odds; one sample
    without a residual is added everywhere, so that where there are few samples what is stated holds.
    """
    kernel = np.exp(-0.5 * (_PLACES / bandwidth) ** 2)
    moved = np.empty_like(rows)
    for k in range(rows.shape[1]):
        place = _place(probs[:, k])
        sums = np.bincount(place, (labels == k) - probs[:, k], len(_PLACES))
        counts = np.bincount(place, minlength=len(_PLACES))
        near = np.convolve(counts, kernel, mode="same") + 1.0
        mean = np.convolve(sums, kernel, mode="same") / near
        moved[:, k] = np.maximum(rows[:, k] + mean[_place(rows[:, k])], 0.0)
    total = moved.sum(axis=1, keepdims=True)
    return np.divide(moved, total, out=rows.copy(), where=total > 0)


def _place(probs: Vector) -> Vector:
    inside = np.clip(probs, 1e-7, 1 - 1e-7)
    odds = np.log(inside / (1 - inside))
    return np.rint((odds - _PLACES[0]) / (_PLACES[1] - _PLACES[0])).astype(np.int64).clip(0, len(_PLACES) - 1)


def normal_truth(
    classes: int, scale: float, spread: float, num_bins: int, rows: int, *, another: bool = False
) -> tuple[Errors, Vector]:
    """The errors of normal logits times a scale, or of another model's, and the top label's gaps by bin."""
    rows, block = min(rows, MOST_PROBABILITIES // classes), BLOCK // classes
    rng, parts, sums = np.random.default_rng((classes, 7)), list[tuple[Vector, ...]](), np.zeros(num_bins)
    for start in range(0, rows, block):
        logits, _ = normal((min(block, rows - start), classes), spread, rng)
        known = coarser(logits, rng) if another else logits
        truth, probs = softmax(logits, axis=1), softmax(scale * known, axis=1)
        parts.append(_columns(probs, truth))
        sums += np.bincount(width_bins(probs.ravel(), num_bins), (truth - probs).ravel(), num_bins)
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    found, gaps = _errors(*columns, num_bins, two=classes == 2)
    if classes > 2:  # the classes are alike, so one table of bins does for all
        found["classwise_ece"] = float(np.abs(sums).sum()) / (classes * rows)
    return found, gaps


def redrawn_truth(population: Redrawn, num_bins: int) -> tuple[Errors, Vector]:
    """The errors of all rows of a file, and the gaps of the top label by bin."""
    stated, truth = population.stated, population.truth
    classes = stated.shape[1]
    found, gaps = _errors(*_columns(stated, truth), num_bins, two=classes == 2)
    if classes > 2:
        each = [_binned(stated[:, k], truth[:, k], num_bins)[0]["ece"] for k in range(classes)]
        found["classwise_ece"] = float(np.mean(each))
    return found, gaps


def _columns(probs: Matrix, truth: Matrix) -> tuple[Vector, ...]:
    """The top label's stated and true probability, and those of the second class."""
    top = np.arange(len(probs)), probs.argmax(axis=1)
    return probs[top], truth[top], probs[:, 1], truth[:, 1]


def _errors(
    confidence: Vector, right: Vector, event: Vector, happens: Vector, num_bins: int, *, two: bool
) -> tuple[Errors, Vector]:
    """Errors of the top label, of two classes those of the positive one where that form is shown."""
    found, gaps = event_errors(confidence, right, num_bins), _binned(confidence, right, num_bins)[1]
    if two:
        of_event = event_errors(event, happens, num_bins)
        found = {key: (of_event if find(f"event_{key}", "binary") else found)[key] for key in found}
    return found, gaps


def event_errors(confidence: Vector, expected: Vector, num_bins: int) -> Errors:
    """All errors of one event, of which the true probability is known in each row."""
    from calibrant._math.kernel_smoothing import fixed_points
    from calibrant._math.lipschitz import smooth_calibration_error  # compiled

    size = len(confidence)
    ties, tie, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    residuals = np.bincount(tie, expected - confidence)  # of all rows that state the same
    ends = np.linspace(0, size, num_bins + 1)
    reached = np.interp(ends, np.append(0, counts.cumsum()), np.append(0.0, residuals.cumsum()))
    place = np.minimum((ties * CELLS).astype(np.int64), CELLS - 1)
    cells = np.bincount(place, residuals, CELLS)[None] / size
    return {
        **_binned(confidence, expected, num_bins)[0],
        "adaptive_ece": float(np.abs(np.diff(reached)).sum()) / size,
        "smce": smooth_calibration_error(confidence, expected, None),
        "kolmogorov_smirnov": float(np.abs(residuals.cumsum()).max()) / size,
        "smooth_ece": float(fixed_points((np.arange(CELLS) + 0.5) / CELLS, cells)[0]),
    }


def _binned(confidence: Vector, expected: Vector, num_bins: int) -> tuple[Errors, Vector]:
    """The errors over bins of equal width, and each bin's mean residual, 0 where it is empty."""
    bins = width_bins(confidence, num_bins)
    mass = np.bincount(bins, minlength=num_bins) / len(bins)
    sums = np.bincount(bins, expected - confidence, num_bins) / len(bins)
    gaps = np.divide(sums, mass, out=np.zeros_like(sums), where=mass > 0)
    errors = {
        "ece": float(np.abs(sums).sum()),
        "l2_ece": float(np.sqrt((mass * gaps**2).sum())),
        "mce": float(np.abs(gaps).max()),
        "over_confidence_error": float(np.maximum(-sums, 0).sum()),
        "under_confidence_error": float(np.maximum(sums, 0).sum()),
    }
    return errors, gaps
