"""One number per sample from its probabilities, in float64 without a float64 copy of the table.

``labels`` of shape ``(N,)`` beside probabilities ``(N, C)`` are classes; of equal shape they are outcomes
in {0, 1}, one event per entry, and with several events per sample the value is the mean over them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.arrays import row_slices
from calibrant._math.shapes import Bool, Float, Int, Shaped

FLOOR = 1e-12  # probabilities closer to 0 or 1 than this are clipped before taking logarithms
_VECTOR = 64  # elements; at least those of an unrolled loop
_UNSHARED = 1 << 14  # elements that one thread processes


class TopLabel(NamedTuple):
    """Most probable class, its probability, and whether it is the true class."""

    confidence: Float[Tensor, " N"]
    prediction: Int[Tensor, " N"]
    correct: Bool[Tensor, " N"]


def top_label(probs: Float[Tensor, " N"] | Float[Tensor, "N C"], labels: Shaped[Tensor, " N"]) -> TopLabel:
    """Most probable class; the lowest of several equally probable ones (of an event: 0 at one half)."""
    if probs.ndim == 1:
        event = probs.to(torch.float64)
        prediction = (event > 0.5).to(torch.int64)
        confidence = torch.maximum(event, 1 - event)
    else:
        highest, prediction = probs.max(dim=1)
        confidence = highest.to(torch.float64)
    return TopLabel(confidence, prediction, prediction == labels)


def hits(probs: Tensor, labels: Tensor) -> Float[Tensor, " N"]:
    """1 if the most probable class is the true one, else 0; for several events the share predicted right."""
    if labels.shape == probs.shape:
        return _over_events(lambda p, y: ((p > 0.5) == (y == 1)).to(torch.float64), probs, labels)
    return top_label(probs, labels).correct.to(torch.float64)


def misses(probs: Tensor, labels: Tensor) -> Float[Tensor, " N"]:
    return 1 - hits(probs, labels)


def negative_log_likelihoods(probs: Tensor, labels: Tensor) -> Float[Tensor, " N"]:
    """Minus the log-probability of the outcome; inf if its probability is zero."""
    if labels.shape == probs.shape:
        return _over_events(lambda p, y: 0.0 - torch.where(y == 1, p.log(), torch.log1p(-p)), probs, labels)
    true = probs.gather(1, labels[:, None])[:, 0].to(torch.float64)
    return 0.0 - true.log()  # 0.0 - x: never -0.0


def brier_scores(probs: Tensor, labels: Tensor) -> Float[Tensor, " N"]:
    """Squared distance to the outcome: (p - y)² for an event, summed over the classes for a class."""
    if labels.shape == probs.shape:
        return _over_events(lambda p, y: (p - y.to(torch.float64)).square(), probs, labels)

    def squares(rows: slice) -> Tensor:
        distance = probs[rows].to(torch.float64, copy=True)
        distance[torch.arange(len(distance), device=labels.device), labels[rows]] -= 1
        return distance.square_().sum(dim=1)

    return by_rows(squares, probs)


def entropies(probs: Tensor, *, events: bool) -> Float[Tensor, " N"]:
    """Entropy in nats of each row; with ``events`` each entry is the probability of an event."""
    if events:
        return _over_events(lambda p, _: torch.special.entr(p) + torch.special.entr(1 - p), probs, probs)
    return by_rows(lambda rows: torch.special.entr(probs[rows].to(torch.float64)).sum(dim=1), probs)


def weighted_sum(values: Shaped[Tensor, " N"], weights: Float[Tensor, " N"] | None) -> Float[Tensor, ""]:
    """Sum over the samples; samples of weight zero are ignored, even if their value is infinite."""
    values = values.to(torch.float64)
    return values.sum() if weights is None else (values.where(weights > 0, 0.0) * weights).sum()


def weighted_mean(values: Shaped[Tensor, " N"], weights: Float[Tensor, " N"] | None) -> Float[Tensor, ""]:
    return weighted_sum(values, weights) / (len(values) if weights is None else weights.sum())


def by_rows(score: Callable[[slice], Tensor], table: Tensor) -> Float[Tensor, " N"]:
    # Filled in place: small results kept between large temporaries would fragment the heap.
    scores = torch.empty(len(table), dtype=torch.float64, device=table.device)
    for rows in row_slices(table):
        scores[rows] = score(rows)
    return scores


def _over_events(loss: Callable[[Tensor, Tensor], Tensor], probs: Tensor, labels: Tensor) -> Tensor:
    if probs.ndim == 1:
        return loss(probs.to(torch.float64), labels)
    return by_rows(lambda rows: loss(probs[rows].to(torch.float64), labels[rows]).mean(dim=1), probs)


def steady_sigmoid(scores: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Logistic function that keeps ties: equal scores get equal values.

    A vectorised loop rounds the last few elements, also of each thread's share, differently. So blocks are
    whole vectors and too small to be shared.
    """
    if scores.device.type != "cpu":
        return scores.sigmoid()
    flat = scores.reshape(-1)
    probs = flat.new_zeros(len(flat) + -len(flat) % _VECTOR)
    probs[: len(flat)] = flat
    for block in probs.split(_UNSHARED):
        block.sigmoid_()
    return probs[: len(flat)].reshape(scores.shape)
