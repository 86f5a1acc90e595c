"""Scores of foreignness, and how well they tell two kinds of samples apart."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.metrics import roc_curve as sklearn_roc_curve

from calibrant import metrics

Golden = Callable[[str], Any]
SCORES = ("entropy", "max_probability", "max_logit", "energy")
OTHER = 1e-10  # another implementation


def test_the_areas_of_the_2020_code(golden: Golden) -> None:
    case = golden("ood_auroc.json")
    for score, key in (("entropy", "auc_entropy"), ("max_probability", "auc_confidence")):
        inside, outside = (
            metrics.out_of_distribution_scores(logits=case[name], score=score)
            for name in ("id_logits", "ood_logits")
        )
        found = metrics.out_of_distribution_detection(inside, outside)
        assert found.auroc == pytest.approx(case[key], rel=OTHER)


@pytest.mark.parametrize("score", SCORES)
def test_scores_of_classes(score: str) -> None:
    """Against high precision, from float32 logits that saturate as well."""
    rng = np.random.default_rng(0)
    logits = (rng.normal(size=(30, 5)) * rng.choice([1, 30], (30, 1))).astype(np.float32)
    found = metrics.out_of_distribution_scores(logits=logits, score=score)  # type: ignore[arg-type]
    for row, ours in zip(logits, found.tolist(), strict=True):
        with localcontext() as context:
            context.prec = 60
            exponentials = [Decimal(float(z)).exp() for z in row]
            total = sum(exponentials)
            expected = {
                "entropy": -sum(e / total * (e / total).ln() for e in exponentials),
                "max_probability": 1 - max(exponentials) / total,
                "max_logit": -Decimal(float(row.max())),
                "energy": -total.ln(),
            }[score]
            assert ours == pytest.approx(float(expected), rel=1e-12, abs=1e-15)


def test_saturated_samples_keep_their_order() -> None:
    """At logits 40 and 50 every top probability rounds to one, and the scores still differ."""
    logits = torch.tensor([[40.0, 0.0, 0.0], [50.0, 0.0, 0.0]])
    assert (logits.double().softmax(dim=1)[:, 0] == 1).all()
    for score in ("entropy", "max_probability"):
        first, second = metrics.out_of_distribution_scores(logits=logits, score=score)
        assert first > second > 0


@pytest.mark.parametrize("score", ["entropy", "max_probability"])
def test_probabilities_and_logits_agree(score: str) -> None:
    """For classes, an event and several labels; an event is the two classes (1 − p, p)."""
    rng = np.random.default_rng(1)
    logits = torch.from_numpy(3 * rng.normal(size=(40, 3)))
    of = metrics.out_of_distribution_scores
    near = {"rel": 1e-9, "abs": 1e-12}
    a, b = of(logits=logits, score=score), of(probs=logits.softmax(dim=1), score=score)
    assert a.tolist() == pytest.approx(b.tolist(), **near)
    event = of(logits=logits[:, 0], score=score)
    assert event.tolist() == pytest.approx(of(probs=logits[:, 0].sigmoid(), score=score).tolist(), **near)
    pair = torch.stack([torch.zeros(40, dtype=torch.float64), logits[:, 0]], dim=1)
    assert event.tolist() == pytest.approx(of(logits=pair, score=score).tolist(), **near)
    a, b = (
        of(logits=logits, score=score, multilabel=True),
        of(probs=logits.sigmoid(), score=score, multilabel=True),
    )
    assert a.tolist() == pytest.approx(b.tolist(), **near)


def test_scores_of_several_labels() -> None:
    logits = torch.tensor([[0.0, -2.0], [3.0, 1.0]], dtype=torch.float64)
    found = {
        score: metrics.out_of_distribution_scores(logits=logits, score=score, multilabel=True).tolist()
        for score in SCORES
    }
    for place, row in enumerate(logits.tolist()):
        p = [1 / (1 + math.exp(-z)) for z in row]
        entropy = sum(-q * math.log(q) - (1 - q) * math.log(1 - q) for q in p) / 2
        assert found["entropy"][place] == pytest.approx(entropy, rel=1e-12)
        assert found["max_probability"][place] == pytest.approx(1 - max(p), rel=1e-12)
        assert found["max_logit"][place] == -max(row)
        energy = -sum(math.log1p(math.exp(z)) for z in row)
        assert found["energy"][place] == pytest.approx(energy, rel=1e-12)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_detection_is_scikit_learns(tied: bool, weighted: bool) -> None:
    rng = np.random.default_rng(2)
    inside, outside = rng.normal(size=70), rng.normal(1, 1, size=50)
    if tied:
        inside, outside = np.round(inside), np.round(outside)
    masses = [rng.uniform(0.1, 2, size) if weighted else np.ones(size) for size in (70, 50)]
    scores, mass = np.concatenate([inside, outside]), np.concatenate(masses)
    foreign = np.repeat([0, 1], [70, 50])
    given = {"in_weights": masses[0], "out_weights": masses[1]} if weighted else {}
    found = metrics.out_of_distribution_detection(inside, outside, **given)
    assert found.auroc == pytest.approx(roc_auc_score(foreign, scores, sample_weight=mass), rel=OTHER)
    expected = average_precision_score(foreign, scores, sample_weight=mass)
    assert found.aupr == pytest.approx(expected, rel=OTHER)
    expected = average_precision_score(1 - foreign, -scores, sample_weight=mass)
    assert found.aupr_in == pytest.approx(expected, rel=OTHER)
    for target, score, ours in (
        (foreign, scores, found.fpr_at_tpr),
        (1 - foreign, -scores, found.fpr_at_tpr_in),
    ):
        false, true, _ = sklearn_roc_curve(target, score, sample_weight=mass, drop_intermediate=False)
        assert ours == pytest.approx(false[true >= 0.95 - 1e-12].min(), rel=OTHER)


def test_the_roc_curve_holds_the_area() -> None:
    """The trapezoids under the curve are the AUROC; it runs from (0, 0) to (1, 1)."""
    rng = np.random.default_rng(3)
    scores, outcomes, weights = np.round(rng.normal(size=80), 1), rng.integers(0, 2, 80), rng.uniform(size=80)
    curve = metrics.roc_curve(scores, outcomes, weights=weights)
    x, y = np.array(curve.false_positive_rate), np.array(curve.true_positive_rate)
    area = float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum())
    expected = metrics.auroc(1 / (1 + np.exp(-scores)), outcomes, weights=weights).item()
    assert area == pytest.approx(expected, rel=OTHER)
    assert (curve.false_positive_rate[0], curve.true_positive_rate[-1]) == (0.0, 1.0)
    assert curve.thresholds == (None, *sorted(set(scores.tolist()), reverse=True))


def test_the_edges() -> None:
    """One sample of each kind; all equal; infinite scores; a rate that must be reached exactly."""
    detect = metrics.out_of_distribution_detection
    one = detect([0.0], [1.0])
    assert (one.auroc, one.aupr, one.aupr_in, one.fpr_at_tpr, one.fpr_at_tpr_in) == (1, 1, 1, 0, 0)
    tied = detect([1.0, 1.0, 1.0], [1.0])
    assert (tied.auroc, tied.aupr, tied.aupr_in, tied.fpr_at_tpr) == (0.5, 0.25, 0.75, 1.0)
    assert detect([-math.inf, 0.0], [math.inf]).auroc == 1.0
    twenty = np.arange(20.0)  # 19 of 20 are 95 %: the lowest need not be caught
    assert detect([0.5], twenty).fpr_at_tpr == 0.0
    assert detect([0.5], twenty, true_positive_rate=0.96).fpr_at_tpr == 1.0
