"""Venn-Abers calibration against its definition: isotonic regression, with the new sample in it."""

import numpy as np
import pytest
import torch

from calibrant._math.errors import without_warnings
from calibrant._math.isotonic import isotonic_blocks, venn_abers
from calibrant.calibrators import VennAbersCalibration


def by_definition(scores, outcomes, weights, score, outcome) -> float:
    """Isotonic regression on the samples and one more."""
    blocks = isotonic_blocks(np.append(scores, score), np.append(outcomes, outcome), np.append(weights, 1.0))
    return float(blocks.at(np.array([score]))[0])


def sample(seed: int, count: int, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scores, tied or not, and outcomes that go with them."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, count).astype(float) if ties else rng.normal(size=count)
    return scores, (rng.random(count) < 1 / (1 + np.exp(2 - scores))).astype(float)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_interval_is_what_isotonic_regression_says_with_the_sample_in_it(seed, ties) -> None:
    scores, outcomes = sample(seed, 3 * seed + 2, ties)
    weights = (
        np.ones(len(scores)) if seed % 2 else np.random.default_rng(seed).integers(1, 4, len(scores)) * 1.0
    )
    ends, lower, upper = venn_abers(scores, outcomes, weights).steps()
    points = np.unique(scores)
    for score in [*points, *((points[1:] + points[:-1]) / 2), points[0] - 1, points[-1] + 1]:
        step = np.searchsorted(ends[:-1], score)
        assert lower[step] == pytest.approx(by_definition(scores, outcomes, weights, score, 0.0), abs=1e-12)
        assert upper[step] == pytest.approx(by_definition(scores, outcomes, weights, score, 1.0), abs=1e-12)


def test_merged_probabilities_lie_between_and_never_say_never() -> None:
    widths = []
    for count in (30, 3000):
        scores, outcomes = sample(1, count, ties=False)
        for merging in ("log", "brier"):
            with without_warnings():
                fitted = VennAbersCalibration(merging=merging).fit(scores, outcomes.astype(int))
            low, high = fitted.predict_interval(scores)
            probs = fitted.predict_proba(scores)
            assert bool(((low <= probs) & (probs <= high) & (probs > 0) & (probs < 1)).all())
        widths.append(float((high - low).mean()))
    assert widths[1] < widths[0] / 5


def test_folds_merge_by_geometric_means() -> None:
    """The cross form: each fold's own two probabilities, merged as in the paper."""
    scores, outcomes = sample(2, 40, ties=False)
    with without_warnings():
        fitted = VennAbersCalibration(folds=2).fit(scores, outcomes.astype(int))
    order = np.argsort(scores)
    new = np.append(scores[order][::7], [-9.0, 9.0])
    lows, highs = [], []
    for fold in (order[::2], order[1::2]):
        ends, lower, upper = venn_abers(scores[fold], outcomes[fold], np.ones(20)).steps()
        step = np.searchsorted(ends[:-1], new)
        lows.append(lower[step])
        highs.append(upper[step])
    not_event, event = np.sqrt((1 - lows[0]) * (1 - lows[1])), np.sqrt(highs[0] * highs[1])
    low, high = fitted.predict_interval(new)
    np.testing.assert_allclose(low, 1 - not_event, atol=1e-12)
    np.testing.assert_allclose(high, event, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(new), event / (not_event + event), atol=1e-12)


@pytest.mark.parametrize("kind", ["multiclass", "multilabel", "two logits"])
def test_intervals_of_every_kind(kind) -> None:
    rng = np.random.default_rng(3)
    logits = torch.from_numpy(rng.normal(size=(80, 2 if kind == "two logits" else 3)))
    labels = torch.from_numpy(rng.integers(0, 2, (80, 3)) if kind == "multilabel" else rng.integers(0, 2, 80))
    given = logits[:, 1] - logits[:, 0] if kind == "two logits" else logits
    with without_warnings():
        fitted = VennAbersCalibration().fit(given, labels)
    new = torch.from_numpy(rng.normal(size=logits.shape))
    low, high = fitted.predict_interval(new)
    assert low.shape == high.shape == new.shape

    def odds(scores: torch.Tensor) -> np.ndarray:
        others = scores[:, [0, -1][: scores.shape[1] - 1]]
        return (scores[:, 1] - (0 if kind == "multilabel" else others.logsumexp(dim=1))).numpy()

    outcomes = (labels[:, 1] if kind == "multilabel" else labels).numpy().astype(float)
    ends, lower, upper = venn_abers(odds(logits), outcomes, np.ones(80)).steps()
    step = np.searchsorted(ends[:-1], odds(new))
    np.testing.assert_allclose(low[:, 1], lower[step], atol=1e-12)
    np.testing.assert_allclose(high[:, 1], upper[step], atol=1e-12)
