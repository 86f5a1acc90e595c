"""What counts as the event: of classes the top label or each class, of several labels each label."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import metrics

BY_TOP_LABEL: dict[str, Callable[..., Any]] = {
    "smooth error": metrics.smooth_calibration_error,
    "smooth ECE": metrics.smooth_ece,
    "gap": metrics.post_processing_gap,
    "gap of the log loss": partial(metrics.post_processing_gap, score="nll"),
    "KS": partial(metrics.kolmogorov_smirnov_test, num_draws=50),
    "Kuiper": partial(metrics.kuiper_test, num_draws=50),
    "Spiegelhalter": metrics.spiegelhalter_test,
    "Brier's parts": metrics.score_decomposition,
    "parts of the log loss": partial(metrics.score_decomposition, score="nll"),
    "slope": metrics.calibration_slope,
    "sweep": metrics.sweep_calibration_error,
    "bins of the sweep": metrics.monotone_num_bins,
}
BY_CLASS = [name for name in BY_TOP_LABEL if not name.endswith(("slope", "sweep"))]
TESTS = ("KS", "Kuiper", "Spiegelhalter")


def table() -> tuple[Tensor, Tensor]:
    """Probabilities (80, 4) of an over-confident model, and labels of which none is the last class."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(80, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
    return torch.softmax(2 * logits, 1), labels.clamp(max=2)


def numbers(found: Any) -> list[Tensor]:
    """One value, or those of a result with several."""
    return list(vars(found).values()) if dataclasses.is_dataclass(found) else [found]


@pytest.mark.parametrize("measure", BY_TOP_LABEL.values(), ids=BY_TOP_LABEL)
def test_top_label_is_the_event_of_being_right(measure: Callable[..., Any]) -> None:
    """(N, C) with (N,) is the measure of the top probability and of whether the top label is right."""
    probs, labels = table()
    confidence, prediction = probs.max(dim=1)
    assert measure(probs, labels) == measure(confidence, prediction == labels)


@pytest.mark.parametrize("name", BY_CLASS)
def test_classes_and_labels_are_one_event_per_column(name: str) -> None:
    """Each class against all others, also one that no label names, and each of several labels."""
    (probs, labels), measure = table(), BY_TOP_LABEL[name]
    apart = {} if name in TESTS else {"average": "none"}
    several = torch.nn.functional.one_hot(labels, 4)[:, :3]
    by_class = numbers(measure(probs, labels, classwise=True, **apart))
    by_label = numbers(measure(probs[:, :3], several, **apart))
    alone = [numbers(measure(probs[:, k], labels == k)) for k in range(4)]
    for place, columns in enumerate(zip(*alone, strict=True)):
        expected = torch.stack(columns)
        torch.testing.assert_close(by_class[place], expected, rtol=0, atol=1e-15)
        torch.testing.assert_close(by_label[place], expected[:3], rtol=0, atol=1e-15)
    if apart:
        mean = measure(probs, labels, classwise=True)
        for whole, each in zip(numbers(mean), by_class, strict=True):
            torch.testing.assert_close(whole, each.mean(), rtol=1e-14, atol=1e-15)
