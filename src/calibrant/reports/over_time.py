"""Windows of a stream, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.evaluation.monitoring.result import Monitoring, SequentialTest, Window
from calibrant.evaluation.quantities import ACCURACY, ECE, MEAN_CONFIDENCE, MEAN_PROBABILITY, PREVALENCE
from calibrant.reports.words import MISSING, brief


def means_of(found: Monitoring) -> tuple[tuple[str, str], tuple[str, str]]:
    """Keys and titles of the predicted and the actual rate."""
    if found.kind in {"binary", "multilabel"}:
        return (MEAN_PROBABILITY.key, "predicted"), (PREVALENCE.key, "actual")
    return (MEAN_CONFIDENCE.key, "confidence"), (ACCURACY.key, "accuracy")


def deciding(found: Monitoring) -> SequentialTest:
    """The test that raises the alarm."""
    return next(test for test in found.tests if test.decides)


def titles(found: Monitoring) -> Sequence[str]:
    """Titles of the columns, without the evidence."""
    (_, predicted), (_, actual) = means_of(found)
    return ("window", "labelled", predicted, actual, "ECE", "95%")


def window_cells(window: Window, found: Monitoring) -> tuple[str, ...]:
    """Means, ECE and its interval of a window; nothing where too few labels are known."""
    metrics = window.metrics
    means = [brief(metrics[key], key)[0] if key in metrics else MISSING for key, _ in means_of(found)]
    error = metrics.get(ECE.key)
    return (
        *means,
        *((MISSING, "") if error is None else brief(error)),
    )
