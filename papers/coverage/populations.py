"""Where test sets are drawn from: normal logits, and real predictions with labels redrawn from a truth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant.evaluation.arguments import as_judged
from calibrant.evaluation.judging.labelled_probs import with_complement
from calibrant.predictions import Predictions, load_predictions

Stated = Literal["as in the file", "the truth"]
MERGED = 0.4  # of the rows in which another model cannot tell two classes apart
_PLACES = np.linspace(-14.0, 14.0, 561)  # log-odds


def draw_labels(truth: Float[np.ndarray, "N C"], rng: np.random.Generator) -> Int[np.ndarray, " N"]:
    """A label of each row of probabilities."""
    below = truth.cumsum(axis=1) < rng.random((len(truth), 1))
    return np.minimum(below.sum(axis=1), truth.shape[1] - 1)


def softmax(logits: Float[np.ndarray, "N C"]) -> Float[np.ndarray, "N C"]:
    """Probabilities of logits."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Normal:
    """Normal logits, whose softmax is the truth."""

    classes: int
    spread: float

    def draw(
        self, num_samples: int, rng: np.random.Generator
    ) -> tuple[Float[np.ndarray, "N C"], Int[np.ndarray, " N"]]:
        """True logits and labels drawn from them."""
        logits = self.spread * rng.normal(size=(num_samples, self.classes))
        return logits, draw_labels(softmax(logits), rng)


def coarser(logits: Float[np.ndarray, "N C"], rng: np.random.Generator) -> Float[np.ndarray, "N C"]:
    """What a model knows that cannot tell the two likeliest classes apart in two rows of five.

    Both get the mean of their probabilities, so that it is as calibrated as the one with these logits, and
    right less often.
    """
    probs = softmax(logits)
    rows = np.flatnonzero(rng.random(len(probs)) < MERGED)
    top = np.argsort(-probs[rows], axis=1)[:, :2]
    probs[rows[:, None], top] = np.take_along_axis(probs[rows], top, axis=1).mean(axis=1, keepdims=True)
    return np.log(probs)


def stated(logits: Float[np.ndarray, "N C"], labels: Int[np.ndarray, " N"], scale: float) -> Predictions:
    """Predictions that state these logits times a scale; of two classes, the log-odds of the second."""
    if logits.shape[1] == 2:
        return Predictions(logits=scale * (logits[:, 1] - logits[:, 0]), labels=labels)
    return Predictions(logits=scale * logits, labels=labels)


@dataclass(frozen=True)
class Redrawn:
    """Rows of real predictions and what is taken for the truth ``(M, C)``."""

    stated: Float[np.ndarray, "M C"]
    truth: Float[np.ndarray, "M C"]

    def draw(self, num_samples: int, rng: np.random.Generator) -> Predictions:
        """Rows drawn with replacement, and labels from their truth."""
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


def smoothed(
    probs: Float[np.ndarray, "N C"],
    labels: Int[np.ndarray, " N"],
    rows: Float[np.ndarray, "M C"],
    bandwidth: float,
) -> Float[np.ndarray, "M C"]:
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


def _place(probs: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """The nearest of the places, by log-odds."""
    inside = np.clip(probs, 1e-7, 1 - 1e-7)
    odds = np.log(inside / (1 - inside))
    return np.rint((odds - _PLACES[0]) / (_PLACES[1] - _PLACES[0])).astype(np.int64).clip(0, len(_PLACES) - 1)
