"""The canonical error against densities of scipy, one pair at a time."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, dirichlet

from calibrant import metrics
from calibrant._math.errors import InputError
from calibrant.metrics import canonical_error

TOLERANCE = 1e-10


def log_kernel(at: Any, of: Any, h: float) -> float:
    """Dirichlet (or Beta) log-density at one point."""
    if np.ndim(at) == 0:
        return float(beta.logpdf(at, of / h + 1, (1 - of) / h + 1))
    return float(dirichlet.logpdf(at, of / h + 1))


def by_pairs(probs: Any, labels: Any, h: float, norm: int, weights: Any) -> float:
    n = len(probs)
    found = []
    for j in range(n):
        others = [i for i in range(n) if i != j]
        masses = [weights[i] * math.exp(log_kernel(probs[j], probs[i], h)) for i in others]
        truths = [labels[i] if probs.ndim == 1 else np.eye(probs.shape[1])[labels[i]] for i in others]
        ratio = sum(m * t for m, t in zip(masses, truths, strict=True)) / math.fsum(masses)
        found.append(float(np.sum(np.abs(ratio - probs[j]) ** norm)))
    return float(np.average(found, weights=weights) ** (1 / norm))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("h", [0.05, 0.5])
def test_equals_the_definition(rng: np.random.Generator, h: float, norm: int, weighted: bool) -> None:
    """Classes, an event and several labels, to 1e-10 of scipy's densities."""
    probs, labels = rng.dirichlet(np.ones(3), 25), rng.integers(0, 3, 25)
    weights = rng.random(25) if weighted else np.ones(25)
    options: dict[str, Any] = {
        "bandwidth": h,
        "norm": f"l{norm}",
        "weights": weights if weighted else None,
    }
    found = metrics.canonical_calibration_error(probs, labels, **options).item()
    assert found == pytest.approx(by_pairs(probs, labels, h, norm, weights), abs=TOLERANCE)
    events = (labels[:, None] == np.arange(3)).astype(int)
    each = [by_pairs(probs[:, k], events[:, k], h, norm, weights) for k in range(3)]
    found = metrics.canonical_calibration_error(probs[:, 0], events[:, 0], **options).item()
    assert found == pytest.approx(each[0], abs=TOLERANCE)
    some, outcomes = probs[:, :2], events[:, :2]
    apart = metrics.canonical_calibration_error(some, outcomes, average="none", **options)
    assert apart.tolist() == pytest.approx(each[:2], abs=TOLERANCE)
    mean = metrics.canonical_calibration_error(some, outcomes, **options).item()
    assert mean == pytest.approx(np.mean(each[:2]), abs=TOLERANCE)


def test_bandwidth_is_the_likeliest(rng: np.random.Generator) -> None:
    """The default is the candidate of greatest leave-one-out likelihood, for near and for far samples."""
    chosen = set()
    for spread in (0.3, 1.0, 30.0):
        probs, labels = rng.dirichlet(np.full(3, spread), 30), rng.integers(0, 3, 30)

        def likelihood(h: float, probs: Any = probs) -> float:
            total = 0.0
            for j in range(30):
                logs = [log_kernel(probs[j], probs[i], h) for i in range(30) if i != j]
                total += np.logaddexp.reduce(logs)
            return total

        # scipy refuses parameters as large as 1e5 in places; the far candidates are never likeliest here.
        candidates = [h for h in canonical_error.CANDIDATES if h > 1e-3]
        best = max(candidates, key=likelihood)
        chosen.add(best)
        by_default = metrics.canonical_calibration_error(probs, labels)
        assert by_default == metrics.canonical_calibration_error(probs, labels, bandwidth=best)
    assert len(chosen) > 1


def test_an_event_and_its_two_classes(rng: np.random.Generator) -> None:
    """Two columns count both of their equal gaps: 2 and √2 times as much."""
    probs, labels = rng.random(60), rng.integers(0, 2, 60)
    table = np.stack([1 - probs, probs], axis=1)
    for norm, factor in (("l1", 2.0), ("l2", math.sqrt(2))):
        event = metrics.canonical_calibration_error(probs, labels, norm=norm).item()
        both = metrics.canonical_calibration_error(table, labels, norm=norm).item()
        assert both == pytest.approx(factor * event, abs=1e-12)


def test_certain_predictors() -> None:
    """Always right is 0, always wrong the largest value; zeros are neighbours of zeros only."""
    labels = np.array([0, 1, 2, 0, 2, 1, 1])
    for h in (None, 1e-5, 0.1, 1.0):
        assert metrics.canonical_calibration_error(np.eye(3)[labels], labels, bandwidth=h).item() == 0
        wrong = np.eye(3)[(labels + 1) % 3]
        assert metrics.canonical_calibration_error(wrong, labels, bandwidth=h).item() == 2
        event = (labels > 0).astype(float)
        assert metrics.canonical_calibration_error(event, labels > 0, bandwidth=h).item() == 0
        assert metrics.canonical_calibration_error(1 - event, labels > 0, bandwidth=h).item() == 1


def test_samples_without_neighbours() -> None:
    # The third sample is alone in holding the second class impossible.
    probs, labels = np.array([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]]), np.array([0, 0, 1])
    value = metrics.canonical_calibration_error(probs, labels, bandwidth=0.1).item()
    alike, other = (math.exp(log_kernel(0.5, of, 0.1)) for of in (0.5, 1.0))
    expected = 2 * (alike / (alike + other) - 0.5)  # at the first two, where class 0 said one half
    assert value == pytest.approx(expected, abs=1e-12)
    for table, classes in (([[0.5, 0.5]], [0]), (np.eye(3), [0, 1, 2])):
        with pytest.raises(InputError, match="no sample has a neighbour"):
            metrics.canonical_calibration_error(table, classes)


def test_chunks_do_not_show(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    probs, labels = rng.dirichlet(np.ones(4), 50), rng.integers(0, 4, 50)
    weights = rng.random(50)
    whole = metrics.canonical_calibration_error(probs, labels, weights=weights).item()
    near = pytest.approx(whole, abs=1e-12)
    rows = rng.permutation(50)
    monkeypatch.setattr(canonical_error, "_CACHED", 130)
    assert metrics.canonical_calibration_error(probs, labels, weights=weights).item() == near
    monkeypatch.setattr(canonical_error, "_JUDGES", 20)
    few = metrics.canonical_calibration_error(probs, labels, weights=weights).item()
    shuffled = metrics.canonical_calibration_error(probs[rows], labels[rows], weights=weights[rows])
    assert shuffled.item() == pytest.approx(few, abs=1e-12)


def test_options() -> None:
    for bandwidth in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="`bandwidth` must be positive and finite"):
            metrics.canonical_calibration_error([[0.5, 0.5]] * 2, [0, 1], bandwidth=bandwidth)
    rounded = np.array([[0.3, 0.7004], [0.6, 0.4]])
    scaled = rounded / rounded.sum(1, keepdims=True)
    options: dict[str, Any] = {"labels": [0, 1], "bandwidth": 0.1}
    found = metrics.canonical_calibration_error(rounded, **options).item()
    assert found == pytest.approx(metrics.canonical_calibration_error(scaled, **options).item(), abs=1e-12)
