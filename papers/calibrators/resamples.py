"""Measures of resampled samples: how often each sample occurs decides, the probabilities stay."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.binning import width_bin_index
from calibrant._math.scores import brier_scores, negative_log_likelihoods, top_label
from calibrant._math.shapes import Float, Shaped
from calibrant.evaluation.fitting.templates import Labelled

NUM_BINS = 15


class Resamples:
    """How often each of N samples occurs in each of a number of resamples of size N.

    Example:
        >>> Resamples(5, 3, seed=0).counts.sum(axis=1).tolist()
        [5, 5, 5]
    """

    def __init__(self, num_samples: int, number: int, *, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        drawn = (rng.integers(num_samples, size=num_samples) for _ in range(number))
        self.counts = np.stack([np.bincount(each, minlength=num_samples) for each in drawn]).astype(np.uint8)

    def sums(self, table: Shaped[np.ndarray, "N K"]) -> Shaped[np.ndarray, "B K"]:
        """Sums over each resample, of each column of a table."""
        parts = np.array_split(self.counts, math.ceil(len(self.counts) / 50))
        return np.concatenate([part.astype(np.float64) @ table for part in parts])

    def measures(self, probs: Tensor, data: Labelled) -> dict[str, NDArray[np.float64] | None]:
        """NLL, Brier score and ECE of each resample; None where one is infinite."""
        weights = np.ones(len(probs)) if data.weights is None else data.weights.numpy()
        losses = losses_of(probs, data)
        total = self.sums(weights[:, None])
        with np.errstate(invalid="ignore"):  # an infinite loss that did not occur is no number
            means = self.sums(weights[:, None] * np.stack(list(losses.values()), 1)) / total
        errors = np.zeros(len(self.counts))
        columns = event_columns(probs, data.labels)
        for confidences, outcomes in columns:
            table = np.zeros((len(probs), NUM_BINS))
            bins = width_bin_index(confidences, NUM_BINS).numpy()
            table[np.arange(len(table)), bins] = weights * (confidences - outcomes).numpy()
            errors += np.abs(self.sums(table) / total).sum(axis=1) / len(columns)
        found = {**dict(zip(losses, means.T, strict=True)), "ece": errors}
        return {name: values if np.isfinite(values).all() else None for name, values in found.items()}


def losses_of(probs: Tensor, data: Labelled) -> Mapping[str, NDArray[np.float64]]:
    """Negative log-likelihood and Brier score of each sample."""
    scores = {"nll": negative_log_likelihoods, "brier": brier_scores}
    return {name: score(probs, data.labels).numpy() for name, score in scores.items()}


def event_columns(probs: Tensor, labels: Tensor) -> list[tuple[Float[Tensor, " N"], Float[Tensor, " N"]]]:
    """Confidences with outcomes: of the top label, of the event, or of each of several labels."""
    if probs.ndim == 2 and labels.ndim == 1:
        top = top_label(probs, labels)
        return [(top.confidence, top.correct.double())]
    table, outcomes = (each.double().reshape(len(each), -1) for each in (probs, labels))
    return list(zip(table.unbind(1), outcomes.unbind(1), strict=True))
