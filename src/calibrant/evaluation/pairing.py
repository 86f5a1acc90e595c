"""Pairing of models: same samples, same class names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant.predictions import Predictions


def test_of(predictions: Predictions) -> Predictions:
    """The test split; all samples where there is none."""
    has_test = predictions.split is not None and bool((predictions.split == 1).any())
    return predictions.test if has_test else predictions


def same_samples(first: Predictions, other: Predictions) -> bool:
    """True if labels and weights agree, or without labels, if the same samples are right."""
    if first.weights is None or other.weights is None:
        if first.weights is not None or other.weights is not None:
            return False
    elif not torch.equal(first.weights, other.weights):
        return False
    if first.labels is not None and other.labels is not None:
        return torch.equal(first.labels, other.labels)
    return first.kind == "top_label" and _same_hits(first.correct, other.correct)


def _same_hits(first: Tensor, other: Tensor) -> bool:
    """True if the same rows are right and noise makes that unlikely."""
    return torch.equal(first, other) and are_telling(len(first), int(first.sum()))


def are_telling(num_samples: int, hits: int) -> bool:
    """True if a million patterns, or more, of right and wrong have as many hits."""
    patterns = math.lgamma(num_samples + 1) - math.lgamma(hits + 1) - math.lgamma(num_samples - hits + 1)
    return patterns > math.log(1e6)


def refuse_other_classes(models: Sequence[tuple[str, tuple[str, ...] | None]]) -> None:
    """Refuse models that name other classes than the first, or the same in another order.

    They are not put into one order here: which column is which class is for the files to say, and where they
    disagree one of them may be wrong.
    """
    known = [(name, classes) for name, classes in models if classes is not None]
    for name, classes in known[1:]:
        first, expected = known[0]
        theirs, mine = Counter(expected), Counter(classes)
        missing = sorted((theirs - mine) + (mine - theirs))
        if missing:
            owner = first if theirs[missing[0]] > mine[missing[0]] else name
            raise InputError(
                f"{first} and {name} must have the same classes; {missing[0]!r} is one of {owner} only; "
                "leave the names out where they are but spelt in another way."
            )
        if classes != expected:
            place = next(k for k, pair in enumerate(zip(expected, classes, strict=False)) if len({*pair}) > 1)
            raise InputError(
                f"{first} and {name} must have their classes in the same order; class {place} is "
                f"{expected[place]!r} in the one and {classes[place]!r} in the other; bring the columns of "
                "the one (and labels that are numbers) into the order of the other."
            )
