"""Segmentation and the like: every position of every sample is judged as a sample of its own."""

from __future__ import annotations

import warnings

from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor, as_label_tensor
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.shapes import Float, Int


def positions_of(
    name: str, scores: Tensor, labels: Tensor, weights: Tensor | None
) -> tuple[
    Float[Tensor, " M"] | Float[Tensor, "M C"],
    Int[Tensor, " M"] | Int[Tensor, "M C"],
    Float[Tensor, " M"] | None,
]:
    """Scores ``(N, C, d1, ...)`` with labels and weights, one row per position, in the order of the labels.

    Labels ``(N, d1, ...)`` are classes; those of the shape of the scores are several labels per position.
    Weights are one per sample ``(N,)``, which all its positions have, or one per position ``(N, d1, ...)``.
    A single channel is the score of an event: its rows have one dimension. Refuses shapes that disagree.
    """
    places = (scores.shape[0], *scores.shape[2:])
    several = labels.shape == scores.shape
    if several and scores.ndim == 3:
        warnings.warn(
            f"`labels` of the shape of `{name}`, {tuple(scores.shape)}, are read as {scores.shape[1]} labels "
            f"at each of {scores.shape[2]} positions; for one event per pixel pass `{name}[:, None]`.",
            CalibrantWarning,
            stacklevel=4,
        )
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
    if scores.shape[1] == 1:
        return scores.reshape(-1), labels.reshape(-1), weights
    flat = scores.movedim(1, -1).reshape(-1, scores.shape[1])
    target = labels.movedim(1, -1).reshape(-1, scores.shape[1]) if several else labels.reshape(-1)
    return flat, target, weights


def counted(
    scores: Tensor, labels: ArrayLike, weights: ArrayLike | None, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The rows whose label, or every label, is another one than ``ignore_index``.

    Where scores and labels do not go together all rows are left, for the checks of shapes to say so.
    Refuses where no row is left, or there is not one weight for each.
    """
    target = as_label_tensor(labels, name="labels").to(scores.device)
    mass = None if weights is None else as_float_tensor(weights, name="weights").to(scores.device)
    if scores.ndim not in {1, 2} or target.shape not in {scores.shape, scores.shape[:1]}:
        return scores, target, mass
    if mass is not None and mass.shape != scores.shape[:1]:
        raise InputError(
            f"`weights` must have shape ({len(scores)},), one per sample; got {tuple(mass.shape)}."
        )
    kept = target != ignore_index
    kept = kept if kept.ndim == 1 else kept.all(dim=1)
    if not bool(kept.any()):
        raise InputError(f"`labels` must not all be {ignore_index}; no position is left.")
    return scores[kept], target[kept], None if mass is None else mass[kept]
