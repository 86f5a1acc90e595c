"""What looks so wrong about predictions that it is said beside the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator

from calibrant.evaluation.judging.agreement import Agreement
from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.phrases import number, percent
from calibrant.evaluation.quantities.accuracy import ACCURACY
from calibrant.evaluation.quantities.auroc import AUROC
from calibrant.evaluation.quantities.mean_confidence import MEAN_CONFIDENCE
from calibrant.evaluation.resampling.ranking import standard_error
from calibrant.predictions import Kind, Predictions
from calibrant.predictions.oddities import SUSPICIOUS

SURE = 3.5  # standard errors; honest predictions reach that once in 4000
RARE = 1 / 4000  # as seldom
FEWEST_RIGHT = 50
FEWEST_WRONG = 20
MANY_TIMES = 2  # as often as the label itself is the label beside it predicted


def alarms(predictions: Predictions | None, reduced: Reduced) -> tuple[str, ...]:
    """Numbers that are not what they are called, labels that do not belong to the scores."""
    noted = () if predictions is None else predictions.notes
    of_accuracy = () if predictions is None else _of_accuracy(predictions.kind, reduced)
    return (*(note for note in noted if note in SUSPICIOUS), *(tuple(_of_labels(reduced)) or of_accuracy))


def other_notes(predictions: Predictions) -> list[str]:
    """What is allowed and odd, without what is alarming."""
    return [note for note in predictions.notes if note not in SUSPICIOUS]


def _of_labels(reduced: Reduced) -> Iterator[str]:
    if reduced.agreement is not None:
        yield from _of_classes(reduced.agreement, reduced.effective_samples)
    elif AUROC.key in reduced.values:
        area = reduced.values[AUROC.key]
        error = standard_error(reduced.influences[AUROC.key], reduced.weights, reduced.clusters)
        if area < 0.5 - SURE * error:
            yield (
                f"The ranking is worse than chance (AUROC {number(area)}, where guessing gives 0.5): are the "
                "labels swapped, or the columns?"
            )


def _of_accuracy(kind: Kind, reduced: Reduced) -> Iterator[str]:
    """Always right or always wrong, where the confidences that are stated rule that out."""
    right, stated = reduced.values.get(ACCURACY.key), reduced.values.get(MEAN_CONFIDENCE.key)
    count = reduced.effective_samples
    if right is None or stated is None:
        return
    if kind != "top_label" and math.isclose(right, 1) and count >= FEWEST_RIGHT and stated**count < RARE:
        yield (
            "Every label is the likeliest class, though the confidences are those of a model that errs: is "
            "the column of predictions taken for the labels?"
        )
    elif right == 0 and count >= FEWEST_WRONG and (1 - stated) ** count < RARE:
        yield (
            f"No label is the likeliest class (accuracy 0 %, mean confidence {percent(stated)}): do the "
            "labels belong to these rows, and are the columns in the order of the labels?"
        )


def _of_classes(found: Agreement, num_samples: float) -> Iterator[str]:
    right, chance = found.share(0), found.by_chance
    offset = max((-1, 1), key=found.share)
    beside = found.share(offset)
    if (
        found.num_classes > 2
        and int((found.occurred > 0).sum()) > 1  # of one class everything is beside it
        and beside > MANY_TIMES * right
        and beside - right > SURE * math.sqrt((beside + right) / num_samples)
        and beside > chance + SURE * math.sqrt(chance * (1 - chance) / num_samples)
    ):
        place = "plus one" if offset > 0 else "minus one"
        yield (
            f"The labels look shifted by one: the class predicted is the label {place} for "
            f"{percent(beside)} of the samples, and the label itself for {percent(right)}."
        )
    elif right < chance - SURE * math.sqrt(chance * (1 - chance) / num_samples):
        yield (
            f"The accuracy of {percent(right)} is below the {percent(chance)} that guessing the classes as "
            "often would give: do the labels belong to these rows, and are the columns in the order of the "
            "labels?"
        )
