"""What a stream's windows show, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.evaluation.monitoring.result import Monitoring, SequentialTest, Window
from calibrant.evaluation.quantities.accuracy import ACCURACY
from calibrant.evaluation.quantities.ece import ECE
from calibrant.evaluation.quantities.mean_confidence import MEAN_CONFIDENCE
from calibrant.evaluation.quantities.mean_probability import MEAN_PROBABILITY
from calibrant.evaluation.quantities.prevalence import PREVALENCE
from calibrant.reports.words import MISSING, interval, number


def means_of(found: Monitoring) -> tuple[tuple[str, str], tuple[str, str]]:
    """Keys of what is stated on average and of what happens, and what they are called."""
    if found.kind in {"binary", "multilabel"}:
        return (MEAN_PROBABILITY.key, "stated"), (PREVALENCE.key, "positive")
    return (MEAN_CONFIDENCE.key, "stated"), (ACCURACY.key, "right")


def deciding(found: Monitoring) -> SequentialTest:
    """The test that raises the alarm."""
    return next(test for test in found.tests if test.decides)


def titles(found: Monitoring) -> Sequence[str]:
    """What the columns of windows are called, without the evidence."""
    (_, stated), (_, happened) = means_of(found)
    return ("window", "labelled", stated, happened, "ECE", "95%")


def window_cells(window: Window, found: Monitoring) -> tuple[str, ...]:
    """Means, ECE and its interval of a window; nothing where too few labels are known."""
    metrics = window.metrics
    means = [number(metrics[key].value) if key in metrics else MISSING for key, _ in means_of(found)]
    error = metrics.get(ECE.key)
    return (
        *means,
        *((MISSING, "") if error is None else (number(error.value), interval(error))),
    )
