"""Events with a predicted probability: the top label and each class, or each label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calibrant.evaluation.monitoring.evidence import BENDERS, SHIFTERS
from calibrant.evaluation.resampling.events import Matrix, Vector
from calibrant.predictions import Predictions


@dataclass(frozen=True)
class Event:
    """Stated probabilities of one thing, and whether it occurred."""

    name: str
    probs: Vector
    outcomes: Vector
    gamblers: Matrix
    share: float
    """Its share of the stake, before anything is known."""


def events_of(predictions: Predictions) -> Iterator[Event]:
    """Each event in turn; of several classes half of the stake goes to the top label."""
    if predictions.kind == "top_label":
        yield _top_label(predictions, 1.0)
    elif predictions.kind == "binary":
        outcomes = np.asarray(predictions.labels, dtype=np.float64)
        yield Event("positive class", predictions.probs.numpy(), outcomes, BENDERS, 1.0)
    else:
        several = predictions.kind == "multilabel"
        if not several:
            yield _top_label(predictions, 0.5)
        probs, labels = predictions.probs.numpy(), np.asarray(predictions.labels)
        names = predictions.class_names or tuple(str(each) for each in range(probs.shape[1]))
        for column, name in enumerate(names):
            outcomes = (labels[:, column] if several else labels == column).astype(np.float64)
            share = 1.0 if several else 0.5
            gamblers = BENDERS if several else SHIFTERS
            yield Event(name, probs[:, column], outcomes, gamblers, share / len(names))


def stated_probs(predictions: Predictions) -> list[tuple[str, Vector]]:
    """Stated probabilities of the top label, the positive class, or each label; no labels are needed."""
    if predictions.kind in {"top_label", "multiclass"}:
        return [("top label", predictions.confidence.numpy())]
    probs = predictions.probs.numpy()
    if predictions.kind == "binary":
        return [("positive class", probs)]
    names = predictions.class_names or tuple(str(each) for each in range(probs.shape[1]))
    return list(zip(names, probs.T, strict=True))


def _top_label(predictions: Predictions, share: float) -> Event:
    outcomes = predictions.correct.numpy().astype(np.float64)
    return Event("top label", predictions.confidence.numpy(), outcomes, BENDERS, share)


def stated_classes(predictions: Predictions) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """The class predicted of each sample; None where only its confidence is known, or there are labels."""
    if predictions.kind == "multiclass":
        return predictions.values.argmax(1).numpy()
    if predictions.kind == "binary":
        return (predictions.probs > 0.5).numpy().astype(np.int64)
    return None
