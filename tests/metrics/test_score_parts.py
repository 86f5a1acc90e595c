"""Parts of proper scores: they add up, and each is what its definition says."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant import metrics

CLOSED_FORM = 1e-12
OTHER_IMPLEMENTATION = 1e-10
SCORES = ("brier", "nll")


def mean_score(p: Any, y: Any, w: Any, score: str) -> float:
    """Mean score of an event's probabilities; what happened had a positive one."""
    if score == "brier":
        return float(np.average((p - y) ** 2, weights=w))
    said = np.where(y == 1, p, 1 - p)
    return float(np.average(-np.log(said), weights=w))


def by_scikit_learn(p: Any, y: Any, w: Any, score: str) -> list[float]:
    """Score, miscalibration, discrimination and uncertainty from scikit-learn's isotonic regression."""
    from sklearn.isotonic import IsotonicRegression

    fitted = np.clip(IsotonicRegression().fit(p, y, w).predict(p), 0, 1)
    base = np.full(len(p), np.average(y, weights=w))
    loss, best, climate = (mean_score(q, y, w, score) for q in (p, fitted, base))
    return [loss, loss - best, climate - best, climate]


def as_list(parts: Any) -> list[float]:
    return [x.item() for x in (parts.score, parts.miscalibration, parts.discrimination, parts.uncertainty)]


def draw(rng: np.random.Generator, n: int = 200) -> tuple[Any, Any, Any]:
    """Tied probabilities strictly between 0 and 1, outcomes of both kinds, weights."""
    p = rng.integers(1, 30, n) / 30
    y = (rng.random(n) < p**2).astype(int)
    y[:2] = 0, 1
    return p, y, rng.random(n) + 0.01


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("weighted", [False, True])
def test_an_event(rng: np.random.Generator, score: str, weighted: bool) -> None:
    """All four parts to 1e-10 of those of scikit-learn's regression."""
    p, y, w = draw(rng)
    expected = by_scikit_learn(p, y, w if weighted else None, score)
    parts = metrics.score_decomposition(p, y, score=score, weights=w if weighted else None)
    assert as_list(parts) == pytest.approx(expected, abs=OTHER_IMPLEMENTATION)
    assert all(part > 0 for part in expected)


@pytest.mark.parametrize("score", SCORES)
def test_classes_and_labels(rng: np.random.Generator, score: str) -> None:
    probs, labels = rng.dirichlet(np.ones(4), 150), rng.integers(0, 4, 150)
    several = (labels[:, None] == np.arange(4)).astype(int)
    columns = [
        as_list(metrics.score_decomposition(probs[:, k], several[:, k], score=score)) for k in range(4)
    ]
    for count, arguments in ((3, {"labels": several[:, :3]}), (4, {"labels": labels, "classwise": True})):
        some = probs[:, :count]
        apart = metrics.score_decomposition(some, score=score, average="none", **arguments)
        assert (pytest.approx(np.array(columns[:count]), abs=CLOSED_FORM)) == np.stack(
            [apart.score, apart.miscalibration, apart.discrimination, apart.uncertainty]
        ).T
        mean = metrics.score_decomposition(some, score=score, **arguments)
        assert as_list(mean) == pytest.approx(np.mean(columns[:count], axis=0), abs=CLOSED_FORM)
    assert as_list(metrics.score_decomposition(several[:, 0] * 1.0, several[:, 0], classwise=True))[0] == 0


def test_the_score_is_the_metric(rng: np.random.Generator) -> None:
    """The score is that of its own function; C classwise Brier scores are the Brier score of the classes."""
    p, y, w = draw(rng)
    parts = metrics.score_decomposition(p, y, weights=w)
    assert parts.score == metrics.brier_score(p, y, weights=w)
    parts = metrics.score_decomposition(p, y, score="nll", weights=w)
    assert parts.score == metrics.negative_log_likelihood(p, y, weights=w)
    probs, labels = rng.dirichlet(np.ones(4), 150), rng.integers(0, 4, 150)
    parts = metrics.score_decomposition(probs, labels, classwise=True)
    brier = metrics.brier_score(probs, labels).item()
    assert 4 * parts.score.item() == pytest.approx(brier, abs=CLOSED_FORM)


@given(
    table=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=25
    ),
    score=st.sampled_from(SCORES),
)
def test_parts_add_up(table: list[tuple[int, int, int]], score: str) -> None:
    """Score = miscalibration - discrimination + uncertainty, none negative, none NaN; zeros and ones too."""
    p, y, w = (np.array(column) for column in zip(*table, strict=True))
    parts = metrics.score_decomposition(p / 6, y, score=score, weights=w)
    loss, miscalibration, discrimination, uncertainty = as_list(parts)
    assert not math.isnan(loss)
    assert min(miscalibration, discrimination, uncertainty) >= 0
    assert loss == miscalibration - discrimination + uncertainty or loss == pytest.approx(
        miscalibration - discrimination + uncertainty, abs=1e-15, rel=1e-15
    )
    assert discrimination <= uncertainty + CLOSED_FORM
    assert uncertainty <= (0.25 if score == "brier" else math.log(2)) + CLOSED_FORM


@pytest.mark.parametrize("score", SCORES)
def test_closed_forms(score: str) -> None:
    y = np.array([0, 0, 0, 1])
    climate = 3 / 16 if score == "brier" else -0.25 * math.log(0.25) - 0.75 * math.log(0.75)

    def parts(p: Any, outcomes: Any = y) -> Any:
        return pytest.approx(as_list(metrics.score_decomposition(p, outcomes, score=score)), abs=CLOSED_FORM)

    assert [0.0, 0.0, climate, climate] == parts(y * 1.0)
    assert [climate, 0.0, 0.0, climate] == parts(np.full(4, 0.25))
    order = metrics.score_decomposition([0.6, 0.61, 0.62, 0.7], y, score=score)
    assert order.discrimination == order.uncertainty  # the order is perfect
    backward = metrics.score_decomposition([0.9, 0.8, 0.7, 0.1], y, score=score)
    assert backward.discrimination == 0
    one = 0.09 if score == "brier" else -math.log(0.7)
    assert [one, one, 0.0, 0.0] == parts([0.7], [1])
    assert [one, one, 0.0, 0.0] == parts([0.3, 0.3], [0, 0])


def test_infinite_scores() -> None:
    parts = metrics.score_decomposition([0.0, 0.0, 1.0], [0, 1, 1], score="nll")
    assert as_list(parts)[:2] == [math.inf, math.inf]
    assert 0 < parts.discrimination.item() < parts.uncertainty.item() < math.log(2)
    absent = metrics.score_decomposition([0.0, 0.0, 1.0], [0, 1, 1], score="nll", weights=[1, 0, 1])
    assert absent.score == absent.miscalibration == 0
    slack = metrics.score_decomposition([[1.0005, 0.0], [0.6, 0.4]], [0, 1], score="nll")
    assert math.isfinite(slack.score.item())


def test_a_wrong_part_is_seen(rng: np.random.Generator) -> None:
    p, y, w = draw(rng)
    expected = by_scikit_learn(p, y, w, "brier")
    jittered = metrics.score_decomposition(p + 1e-9 * rng.random(len(p)), y, weights=w)
    assert as_list(jittered) != pytest.approx(expected, abs=OTHER_IMPLEMENTATION)
    assert as_list(metrics.score_decomposition(p, y)) != pytest.approx(expected, abs=OTHER_IMPLEMENTATION)


@pytest.mark.parametrize("weighted", [False, True])
def test_curve_holds_the_decomposition(rng: np.random.Generator, weighted: bool) -> None:
    p, y, w = draw(rng)
    weights = w if weighted else None
    curve = metrics.corp_reliability_curve(p, y, weights=weights)
    counts, values = np.array(curve.counts), np.array(curve.values)
    assert counts.sum() == pytest.approx(w.sum() if weighted else len(p), abs=1e-9)
    assert np.all(np.diff(values) > 0)
    assert all(low <= high for low, high in zip(curve.lower, curve.upper, strict=True))
    assert set(curve.lower) | set(curve.upper) <= set(p.tolist())
    base = np.average(values, weights=counts)
    assert base == pytest.approx(np.average(y, weights=weights), abs=CLOSED_FORM)
    spread = np.average((values - base) ** 2, weights=counts)
    parts = metrics.score_decomposition(p, y, weights=weights)
    assert spread == pytest.approx(parts.discrimination.item(), abs=CLOSED_FORM)


def test_curve_of_the_top_label_and_of_one() -> None:
    """Classes give the curve of the top label; several labels are refused; one sample is one step."""
    probs, labels = [[0.7, 0.3], [0.4, 0.6]], [0, 0]
    curve = metrics.corp_reliability_curve(probs, labels)
    assert curve == metrics.corp_reliability_curve([0.7, 0.6], [1, 0])
    assert metrics.corp_reliability_curve([0.3], [1]).values == (1.0,)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("task", ["event", "classes", "labels"])
def test_refinement(rng: np.random.Generator, task: str, score: str) -> None:
    """Each part is a difference of the metric of that name, for every task, with weights."""
    metric = {"brier": metrics.brier_score, "nll": metrics.negative_log_likelihood}[score]
    shape = {"event": (50,), "classes": (50, 3), "labels": (50, 3)}[task]
    probs, other = (
        rng.dirichlet(np.ones(3), (2, 50)) if task == "classes" else rng.uniform(0.01, 0.99, (2, *shape))
    )
    labels = rng.integers(0, 3, 50) if task == "classes" else rng.integers(0, 2, shape)
    weights = rng.random(50)
    parts = metrics.refinement_decomposition(probs, other, labels, score=score, weights=weights)
    assert parts.score == metric(probs, labels, weights=weights)
    assert parts.refinement == metric(other, labels, weights=weights)
    assert parts.calibration == parts.score - parts.refinement
    same = metrics.refinement_decomposition(probs, torch.from_numpy(probs), labels, score=score)
    assert same.calibration == 0


def test_refinement_says_no() -> None:
    """Shapes must agree; an infinite refinement cannot be taken off; an infinite score can be."""
    parts = metrics.refinement_decomposition([0.0, 0.5], [0.5, 0.5], [1, 1])
    assert parts.score == parts.calibration == math.inf
    assert metrics.refinement_decomposition([0.0], [0.0], [1], score="brier").calibration == 0
