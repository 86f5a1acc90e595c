"""Warnings: signs that labels or probabilities are not what they seem."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from calibrant._math.text_form import Note
from calibrant.evaluation.judging.reduce import Agreement, ArmStatistics
from calibrant.evaluation.phrases import number, percent
from calibrant.evaluation.quantities import ACCURACY, AUROC, MEAN_CONFIDENCE
from calibrant.evaluation.resampling.ranking import standard_error
from calibrant.predictions import Kind, Predictions
from calibrant.predictions.formats.mark import mark_in
from calibrant.predictions.oddities import SUSPICIOUS

SURE = 3.5  # standard errors; honest predictions reach that once in 4000
RARE = 1 / 4000  # as seldom
FEWEST_RIGHT = 50
FEWEST_WRONG = 20
MANY_TIMES = 2  # ratio of neighbouring labels to right labels among predictions


SEEN_IN_FIT = (
    "The calibrator was fitted on these very samples, so it looks better than on new ones. "
    "Evaluate it on other samples."
)
NO_BETTER = "No better than the class frequencies"
FEWEST_OF_OTHERS = 200  # samples outside the most frequent class: enough for an AUROC of 0.57 to show


def alarms(predictions: Predictions | None, reduced: ArmStatistics) -> tuple[str, ...]:
    """Warnings about misnamed numbers and labels that don't match the scores."""
    if predictions is None:
        return tuple(_of_labels(reduced))
    found = tuple(_of_labels(reduced)) or tuple(_of_accuracy(predictions.kind, reduced))
    mark = mark_in(predictions.notes)
    seen = (SEEN_IN_FIT,) if mark is not None and mark.seen else ()
    notes = (*seen, *(note for note in predictions.notes if note in SUSPICIOUS), *found)
    if found or not is_useless(predictions):
        return notes
    useless = (
        f"{NO_BETTER}, as far as {predictions.num_samples:,} samples can tell: a class gets no higher "
        "probabilities when it occurs than when it doesn't. Did the training diverge, or were the labels "
        "shuffled?"
    )
    return Note(useless, "useless"), *notes


def is_useless(predictions: Predictions) -> bool:
    """True if a class gets no higher probabilities when it occurs, beyond two standard errors.

    False if the scores stay in their file or fewer than 200 samples are outside the most frequent class.

    Example:
        >>> is_useless(Predictions(probs=[0.5] * 500, labels=[0, 1] * 250))
        True
        >>> is_useless(Predictions(probs=[0.45, 0.55] * 250, labels=[0, 1] * 250))
        False
    """
    labels = predictions.labels
    if predictions.kind not in {"binary", "multiclass"} or labels is None or predictions.streamed:
        return False
    counts = torch.bincount(labels)
    if len(labels) - int(counts.max()) < FEWEST_OF_OTHERS:
        return False
    probs = predictions.probs.double()
    table = torch.stack([1 - probs, probs], dim=1) if probs.ndim == 1 else probs
    weights = predictions.weights
    share = torch.full_like(table[:, 0], 1 / len(table)) if weights is None else weights / weights.sum()
    excess = table - share @ table
    frequencies = torch.zeros(table.shape[1], dtype=share.dtype).index_add_(0, labels, share)
    products = excess.gather(1, labels[:, None])[:, 0] - excess @ frequencies
    mean = share @ products
    return bool(mean <= 2 * (share * (products - mean)).norm() + 1e-12)


def other_notes(predictions: Predictions) -> list[str]:
    """Notes on odd data that are no warnings."""
    notes = (note for note in predictions.notes if note not in SUSPICIOUS)
    return [note.about.brief if isinstance(note, Note) and note.kind == "mark" else note for note in notes]


def _of_labels(reduced: ArmStatistics) -> Iterator[str]:
    if reduced.agreement is not None:
        yield from _of_classes(reduced.agreement, reduced.effective_samples)
    elif AUROC.key in reduced.values:
        area = reduced.values[AUROC.key]
        error = standard_error(reduced.influences[AUROC.key], reduced.weights, reduced.clusters)
        if area < 0.5 - SURE * error:
            yield (
                f"The ranking is worse than guessing (AUROC {number(area)}, guessing gives 0.5): are the "
                "labels or the columns swapped?"
            )


def _of_accuracy(kind: Kind, reduced: ArmStatistics) -> Iterator[str]:
    right, stated = reduced.values.get(ACCURACY.key), reduced.values.get(MEAN_CONFIDENCE.key)
    count = reduced.effective_samples
    if right is None or stated is None:
        return
    if kind != "top_label" and math.isclose(right, 1) and count >= FEWEST_RIGHT and stated**count < RARE:
        yield (
            "Every label is the most probable class, although the confidences imply errors: are the labels "
            "really the column of predictions?"
        )
    elif right == 0 and count >= FEWEST_WRONG and (1 - stated) ** count < RARE:
        yield (
            f"No label is the most probable class (accuracy 0%, average confidence {percent(stated)}): do "
            "the labels belong to these rows, and are the columns in the order of the labels?"
        )


def _of_classes(found: Agreement, num_samples: float) -> Iterator[str]:
    right, chance = found.share(0), found.by_chance
    offset = max((-1, 1), key=found.share)
    beside = found.share(offset)
    if (
        found.num_classes > 2
        and int((found.occurred > 0).sum()) > 1  # with a single class, all others are neighbours
        and beside > MANY_TIMES * right
        and beside - right > SURE * math.sqrt((beside + right) / num_samples)
        and beside > chance + SURE * math.sqrt(chance * (1 - chance) / num_samples)
    ):
        place = "plus one" if offset > 0 else "minus one"
        yield (
            f"The labels look shifted by one: the predicted class is the label {place} in "
            f"{percent(beside)} of the samples and the label itself in {percent(right)}."
        )
    elif right < chance - SURE * math.sqrt(chance * (1 - chance) / num_samples):
        yield (
            f"The accuracy of {percent(right)} is below the {percent(chance)} of random guesses: do the "
            "labels belong to these rows, and are the columns in the order of the labels?"
        )
