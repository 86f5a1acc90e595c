"""Predictions with only the largest logits of each sample, as LM servers return them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch

from calibrant._math.arrays import ArrayLike, as_label_tensor
from calibrant._math.errors import InputError
from calibrant._math.top_k import TopK
from calibrant.predictions.bands import bands_of
from calibrant.predictions.formats.mark import Source
from calibrant.predictions.stores import PIECE, HeldScores
from calibrant.predictions.table import Predictions


def predictions_of_top_k(
    top_k: TopK,
    labels: ArrayLike | None = None,
    *,
    split: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    source: Source | None = None,
    notes: Iterable[str] = (),
) -> Predictions:
    """Return top-label predictions from the largest logits and the log-sum-exp of the others.

    The probability and the correctness of the most probable class are exact. Quantities that need the other
    probabilities, such as the classwise error, have no value.

    Args:
        top_k: The largest logits or log-probabilities, by :func:`calibrant.predictions.top_k_of`.
        labels: True classes, shape ``(N,)``; optional.
        split: As in :class:`Predictions`.
        weights: As in :class:`Predictions`.
        groups: As in :class:`Predictions`.
        clusters: As in :class:`Predictions`.
        source: As in :class:`Predictions`.
        notes: As in :class:`Predictions`.

    Returns:
        Predictions of the kind ``"top_label"``, with the largest logits as ``top_k``.

    Raises:
        InputError: If shapes disagree, or a label is negative or not among the classes.

    Example:
        >>> from calibrant.predictions import top_k_of
        >>> top_k = top_k_of([[-0.1, -3.0], [-1.0, -1.2]], [[4, 2], [9, 4]], num_classes=50)
        >>> p = predictions_of_top_k(top_k, labels=[4, 30])
        >>> p, p.correct.tolist()
        (Predictions(top_label, 2 samples, confidence float64), [True, False])
    """
    true = None if labels is None else as_label_tensor(labels, name="labels").cpu()
    if true is not None:
        top_k = replace(top_k, label_logits=top_k.logits_of(true))
    return Predictions(
        confidence=top_k.confidence,
        correct=None if true is None else top_k.predicted == true,
        labels=true,
        split=split,
        weights=weights,
        groups=groups,
        clusters=clusters,
        source=source,
        notes=notes,
        top_k=top_k,
    )


def at_temperature(predictions: Predictions, temperature: float) -> Predictions:
    """Divide the largest logits by a temperature, and the other classes as :meth:`TopK.at` does."""
    if predictions.top_k is None:
        raise InputError("`predictions` must be made of the largest logits of each sample.")
    scaled = predictions.top_k.at(temperature)
    return predictions._with(  # pyright: ignore[reportPrivateUsage]
        top_k=scaled, _store=HeldScores(scaled.confidence)
    )


def has_row_temperature(method: str, predictions: Predictions) -> bool:
    """Return True if a calibrator acts on whole rows of logits, of which only the largest are known."""
    known = predictions.top_k is not None and predictions.top_k.num_classes is not None
    return known and method == "temperature"


def predicted_classes(predictions: Predictions) -> torch.Tensor:
    """Return the most probable class of each sample, in one pass; refuse unknown ones."""
    if predictions.top_k is not None:
        return predictions.top_k.predicted
    if predictions.kind != "multiclass":
        raise InputError(
            "which class is predicted must be known; these predictions hold only its confidence; "
            "give the scores of all classes, or `top_logprobs` with `top_k_indices`."
        )
    step = max(1, PIECE // (predictions.num_classes or 1))
    starts = range(0, predictions.num_samples, step)
    return torch.cat([predictions.scores_of(slice(at, at + step)).argmax(dim=1) for at in starts])


def by_frequency(predictions: Predictions) -> Predictions:
    """Group samples by how often their predicted class is predicted.

    Further groups are kept: ``site=north; frequency=1–3``. True classes play no part. Among samples known to
    be of a rare class, even a calibrated model is wrong more often than predicted, and if labels are counted,
    one label decides the group of its sample.
    """
    _, place, counts = np.unique(predicted_classes(predictions), return_inverse=True, return_counts=True)
    bands = [f"frequency={each}" for each in bands_of(counts[place])]
    if predictions.groups is None:
        return predictions.with_groups(bands)
    return predictions.with_groups(
        [f"{group}; {band}" for group, band in zip(predictions.groups, bands, strict=True)]
    )
