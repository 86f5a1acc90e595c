"""Predictions whose truth is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calibrant.predictions import Kind, Predictions

Maker = Callable[..., Predictions]


@pytest.fixture(scope="session")
def made() -> Maker:
    """Make predictions: outcomes follow the true logits, and the model states them times ``sharpness``."""

    def make(
        kind: Kind = "multiclass",
        num_samples: int = 600,
        num_classes: int = 4,
        *,
        sharpness: float = 1.0,
        shift: float = 0.0,
        seed: int = 0,
        ties: bool = False,
        **more: Any,
    ) -> Predictions:
        rng = np.random.default_rng(seed)
        shape = (num_samples,) if kind in {"binary", "top_label"} else (num_samples, num_classes)
        true = 1.5 * rng.normal(size=shape)
        if ties:
            true = np.round(true)
        stated = sharpness * true + shift
        if kind == "top_label":  # the winner of two classes
            correct = rng.random(shape) < sigmoid(np.abs(true))
            return Predictions(confidence=sigmoid(np.abs(stated)), correct=correct, **more)
        if kind == "multiclass":
            noise = rng.gumbel(size=shape)
            return Predictions(logits=stated, labels=(true + noise).argmax(axis=1), **more)
        return Predictions(logits=stated, labels=(rng.random(shape) < sigmoid(true)).astype(int), **more)

    return make


@pytest.fixture(scope="session")
def confused() -> Maker:
    """The winner is as likely as is stated; of the rest, class 0 (or 1) gets a share from the others."""

    def make(num_samples: int, share: float = 1 / 3, *, seed: int = 0, **more: Any) -> Predictions:
        rng = np.random.default_rng(seed)
        logits = 1.5 * rng.normal(size=(num_samples, 5))
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        rows, winner = np.arange(num_samples), probs.argmax(axis=1)
        true = probs * (1 - share)
        true[rows, winner] = probs[rows, winner]
        true[rows, np.where(winner == 0, 1, 0)] += share * (1 - probs[rows, winner])
        labels = (true.cumsum(axis=1) < rng.random((num_samples, 1))).sum(axis=1)
        return Predictions(logits=logits, labels=labels, **more)

    return make


def sigmoid(values: Any) -> Any:
    return 1 / (1 + np.exp(-values))
