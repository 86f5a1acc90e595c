"""Per-sample scores in closed form, for classes, events and several labels."""

from __future__ import annotations

import math

import pytest
import torch

from calibrant._math.scores import (
    brier_scores,
    entropies,
    hits,
    negative_log_likelihoods,
    steady_sigmoid,
    top_label,
    weighted_mean,
)

CLASSES = torch.tensor([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.4, 0.2, 0.4]], dtype=torch.float64)
LABELS = torch.tensor([1, 1, 2])
EVENTS = torch.tensor([0.9, 0.5, 0.0], dtype=torch.float64)
OUTCOMES = torch.tensor([1, 1, 0])


def test_top_label() -> None:
    """The most probable class, the lowest of equals; of an event, no at one half."""
    top = top_label(CLASSES, LABELS)
    assert top.confidence.tolist() == [0.5, 1.0, 0.4]
    assert top.prediction.tolist() == [1, 0, 0]
    assert top.correct.tolist() == [True, False, False]
    event = top_label(EVENTS, OUTCOMES)
    assert event.confidence.tolist() == [0.9, 0.5, 1.0]
    assert event.prediction.tolist() == [1, 0, 0]
    assert event.correct.tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_confidences_are_exact(dtype: torch.dtype) -> None:
    """Confidences are the float64 value of what was given, and in float64."""
    probs = torch.tensor([[0.1, 0.9]], dtype=dtype)
    confidence = top_label(probs, torch.tensor([1])).confidence
    assert confidence.dtype == torch.float64
    assert confidence.item() == probs[0, 1].item()


def test_hits() -> None:
    """1 for right, 0 for wrong; of several labels the share that is right."""
    assert hits(CLASSES, LABELS).tolist() == [1, 0, 0]
    assert hits(EVENTS, OUTCOMES).tolist() == [1, 0, 1]
    several = torch.tensor([[0.9, 0.2], [0.1, 0.4]])
    assert hits(several, torch.tensor([[1, 0], [1, 0]])).tolist() == [1.0, 0.5]


def test_negative_log_likelihoods() -> None:
    """-log p of what happened; infinite where that was impossible; the mean over several labels."""
    assert negative_log_likelihoods(CLASSES, LABELS).tolist() == pytest.approx(
        [math.log(2), math.inf, -math.log(0.4)], rel=1e-12
    )
    assert negative_log_likelihoods(EVENTS, OUTCOMES).tolist() == pytest.approx(
        [-math.log(0.9), math.log(2), 0.0], rel=1e-12
    )
    several = torch.tensor([[0.5, 0.75]], dtype=torch.float64)
    found = negative_log_likelihoods(several, torch.tensor([[1, 0]]))
    assert found.tolist() == pytest.approx([(math.log(2) + math.log(4)) / 2], rel=1e-12)


def test_brier_scores() -> None:
    """Squares summed over classes, one square for an event, the mean over several labels."""
    assert brier_scores(CLASSES, LABELS).tolist() == pytest.approx([0.38, 2.0, 0.56], rel=1e-12)
    assert brier_scores(EVENTS, OUTCOMES).tolist() == pytest.approx([0.01, 0.25, 0.0], rel=1e-12)
    several = torch.tensor([[0.5, 0.75]], dtype=torch.float64)
    assert brier_scores(several, torch.tensor([[1, 0]])).tolist() == [0.40625]


def test_entropies() -> None:
    """In nats, 0 log 0 = 0; of an event that of (1 - p, p)."""
    found = entropies(CLASSES, events=False)
    expected = -0.2 * math.log(0.2) - 0.5 * math.log(0.5) - 0.3 * math.log(0.3)
    assert found[:2].tolist() == pytest.approx([expected, 0.0], rel=1e-12)
    assert entropies(EVENTS, events=True).tolist() == pytest.approx(
        [-0.9 * math.log(0.9) - 0.1 * math.log(0.1), math.log(2), 0.0], rel=1e-12
    )
    assert entropies(torch.tensor([[0.5, 1.0]]), events=True).tolist() == [math.log(2) / 2]


def test_weighted_mean() -> None:
    """A sample of weight zero does not count, even where its value is infinite."""
    values = torch.tensor([1.0, 3.0, math.inf])
    assert weighted_mean(values, torch.tensor([3.0, 1.0, 0.0], dtype=torch.float64)).item() == 1.5
    assert weighted_mean(values, None).item() == math.inf
    assert weighted_mean(torch.tensor([True, False]), None).item() == 0.5


def test_equal_scores_have_equal_probabilities() -> None:
    """Of 67 equal scores the last three, which are no whole vector, are rounded as the others are."""
    scores = torch.arange(200, dtype=torch.float64).sin()
    each = torch.stack([steady_sigmoid(score.repeat(67)) for score in scores])
    assert bool((each == each[:, :1]).all())
    assert float((each[:, 0] - scores.sigmoid()).abs().max()) < 1e-15
    assert steady_sigmoid(torch.empty(0)).shape == (0,)
