"""Which calibrators are tried where none is named."""

from __future__ import annotations

import math

from calibrant._math.checks import Task
from calibrant.calibrators.roster import available, build

_SAMPLES_PER_NUMBER = 10
_FEWEST_WRONG = 20  # decisions, for a free form
_MOST_SORTED = 1 << 20  # scores for free forms, which sort them


def usual_candidates(
    task: Task, num_samples: int, num_classes: int = 1, *, missing: int = 0, wrong: int | None = None
) -> tuple[str, ...]:
    """Those of the roster that ask to be tried on such predictions, from the fewest numbers to the most.

    Those with numbers for each class need ten samples for each of them and, as free forms do, samples of
    every class; free forms need that there are not too many scores. Where nearly every decision is right, the
    few wrong ones alone say how far to correct: each number needs one of them, and a free form twenty.

    Args:
        task: The kind of predictions.
        num_samples: How many samples there are to choose by.
        num_classes: How many classes or labels.
        missing: How many classes do not occur among the samples.
        wrong: How many samples are of another class than the most probable one; None if that is not known.

    Example:
        >>> usual_candidates("binary", 1000)
        ('temperature', 'platt', 'beta', 'isotonic')
        >>> usual_candidates("binary", 1000, wrong=19)
        ('temperature', 'platt', 'beta')
    """
    wrong = num_samples if wrong is None else wrong
    kept: dict[str, float] = {}
    for text in available():
        calibrator = build(text)
        if task not in calibrator.tried_unasked:
            continue
        count = calibrator.num_parameters(num_classes)
        if count is None:
            few = wrong < min(_FEWEST_WRONG, num_samples)
            suits = not missing and not few and num_samples * num_classes <= _MOST_SORTED
        elif count == calibrator.num_parameters(num_classes + 1):
            suits = True
        else:
            suits = not missing and count <= wrong and _SAMPLES_PER_NUMBER * count <= num_samples
        if suits:
            kept[text] = math.inf if count is None else count
    return tuple(sorted(kept, key=lambda text: kept[text]))
