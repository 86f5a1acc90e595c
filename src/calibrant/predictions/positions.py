"""Predictions of segmentation: one sample per position."""

from __future__ import annotations

from typing import Any

import torch

from calibrant._math.arrays import ArrayLike, as_float_tensor, as_label_tensor
from calibrant._math.checks import positions_of
from calibrant._math.errors import InputError
from calibrant.predictions.checks import as_groups
from calibrant.predictions.table import Predictions

NOTE = "Every position counts as a sample of its own ({samples:,} samples, {positions:,} positions): {so}."
DEPENDENT = "neighbours are alike, so intervals of one image are too short"
BY_SAMPLE = "neighbours are alike, so whole samples are resampled"


def predictions_of_positions(
    *,
    logits: ArrayLike | None = None,
    probs: ArrayLike | None = None,
    labels: ArrayLike,
    ignore_index: int | None = None,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    split: ArrayLike | None = None,
    class_names: ArrayLike | None = None,
) -> Predictions:
    """Predictions with one sample per position, such as each pixel of each image.

    Args:
        logits: Scores before the softmax, shape ``(N, C, d1, ...)``.
        probs: Probabilities of the same shape.
        labels: Classes, shape ``(N, d1, ...)``; or 0 and 1 of the shape of the scores, for several labels.
        ignore_index: Positions with this label are left out (several labels: where any is).
        weights: One per sample ``(N,)`` or one per position ``(N, d1, ...)``.
        groups: Group of each sample ``(N,)``, such as the origin of the image.
        split: Split of each sample ``(N,)``, so that no image is on both sides.
        class_names: One name per class.

    Returns:
        Predictions of the positions that count, in the order of the labels; a note says how many. Samples are
        the clusters, so that intervals are by images; see :class:`DensePredictions` for more than memory
        holds.

    Raises:
        InputError: If shapes disagree or no position counts.

    Example:
        >>> import torch
        >>> labels = torch.tensor([[[0, 1], [255, 1]], [[1, 1], [0, 255]]])
        >>> p = predictions_of_positions(logits=torch.randn(2, 3, 2, 2), labels=labels, ignore_index=255)
        >>> p.kind, p.num_samples, p.labels.tolist()
        ('multiclass', 6, [0, 1, 1, 1, 1, 0])
    """
    name, given = ("probs", probs) if logits is None else ("logits", logits)
    if given is None or (logits is not None and probs is not None):
        raise InputError("give exactly one of `logits` and `probs`.")
    scores = as_float_tensor(given, name=name).cpu()
    if scores.ndim < 3:
        raise InputError(f"`{name}` must have shape (N, C, d1, ...); got {tuple(scores.shape)}.")
    target = as_label_tensor(labels, name="labels").cpu()
    mass = None if weights is None else as_float_tensor(weights, name="weights").cpu()
    flat, found, spread = positions_of(name, scores, target, mass)
    num_samples = scores.shape[0]
    counts = torch.ones(len(flat), dtype=torch.bool)
    if ignore_index is not None:
        kept = found != ignore_index
        counts = kept if kept.ndim == 1 else kept.all(dim=1)
    if not bool(counts.any()):
        raise InputError(f"`labels` must not all be {ignore_index}; no position is left.")
    sample = torch.arange(num_samples).repeat_interleave(len(flat) // num_samples)[counts]
    fields: dict[str, Any] = {name: flat[counts]}
    if (names := as_groups(groups, num_samples)) is not None:
        fields["groups"] = [names[k] for k in sample.tolist()]
    if split is not None:
        fields["split"] = torch.as_tensor(split)[sample]
    several = len(sample.unique()) > 1
    if several:
        fields["clusters"] = sample
    so = BY_SAMPLE if several else DEPENDENT
    return Predictions(
        **fields,
        labels=found[counts],
        weights=None if spread is None else spread[counts],
        class_names=class_names,
        notes=(NOTE.format(samples=num_samples, positions=len(sample), so=so),),
    )
