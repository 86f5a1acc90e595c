"""Segmentation and the like: every position of every sample is judged as a sample of its own."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int


def positions_of(
    name: str, scores: Tensor, labels: Tensor, weights: Tensor | None
) -> tuple[Float[Tensor, "M C"], Int[Tensor, " M"] | Int[Tensor, "M C"], Float[Tensor, " M"] | None]:
    """Scores ``(N, C, d1, ...)`` with labels and weights, one row per position, in the order of the labels.

    Labels ``(N, d1, ...)`` are classes; those of the shape of the scores are several labels per position.
    Weights are one per sample ``(N,)``, which all its positions have, or one per position ``(N, d1, ...)``.

    Raises:
        InputError: If the shapes disagree.
    """
    places = (scores.shape[0], *scores.shape[2:])
    several = labels.shape == scores.shape
    if labels.shape != places and not several:
        raise InputError(
            f"`labels` must have shape {places}, one class per position, to go with `{name}` of shape "
            f"{tuple(scores.shape)}; got {tuple(labels.shape)}."
        )
    if weights is not None:
        if weights.shape not in {places, places[:1]}:
            raise InputError(
                f"`weights` must have shape {places[:1]} or {places}; got {tuple(weights.shape)}."
            )
        if weights.shape != places:
            weights = weights.reshape(-1, *(1 for _ in places[1:])).expand(places)
        weights = weights.reshape(-1)
    flat = scores.movedim(1, -1).reshape(-1, scores.shape[1])
    target = labels.movedim(1, -1).reshape(-1, scores.shape[1]) if several else labels.reshape(-1)
    return flat, target, weights
