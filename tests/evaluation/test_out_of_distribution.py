"""Foreign samples against the test samples of an evaluation."""

from typing import Any

import numpy as np
import pytest

from calibrant import metrics
from calibrant.evaluation import Evaluation, evaluate
from calibrant.predictions import Predictions

FEW = {"bootstrap": 40, "null_draws": 10}


def foreign(num_samples: int = 300, **more: Any) -> Predictions:
    """Scores of samples that the model is unsure of; labels are not needed."""
    rng = np.random.default_rng(8)
    return Predictions(logits=0.3 * rng.normal(size=(num_samples, 4)), **more)


def test_every_arm_is_judged_and_changes_are_paired(made) -> None:
    predictions = made(num_samples=600, sharpness=2.0, split=np.arange(600) % 2)
    found = evaluate(predictions, ood=foreign(), calibrators=["temperature"], **FEW)
    detected = found.out_of_distribution
    assert (detected.score, detected.num_in, detected.num_out) == ("entropy", 300, 300)
    assert [arm.name for arm in detected.arms] == ["uncalibrated", "temperature"]
    inside = metrics.out_of_distribution_scores(logits=predictions.test.scores)
    outside = metrics.out_of_distribution_scores(logits=foreign().scores)
    expected = metrics.out_of_distribution_detection(inside, outside)
    first = {name: estimate.value for name, estimate in detected.arms[0].metrics.items()}
    assert first == pytest.approx(
        {
            "auroc": expected.auroc,
            "aupr": expected.aupr,
            "aupr_in": expected.aupr_in,
            "fpr_at_95": expected.fpr_at_tpr,
            "fpr_at_95_in": expected.fpr_at_tpr_in,
        },
        rel=1e-12,
    )
    assert all(each.low <= each.value <= each.high for arm in detected.arms for each in arm.metrics.values())
    change, after = (each["auroc"].value for each in (detected.arms[1].change, detected.arms[1].metrics))
    assert change == pytest.approx(after - expected.auroc, abs=1e-12)
    assert "By entropy, 300 out-of-distribution samples are distinguished from 300 test" in detected.sentence
    assert Evaluation.from_json(found.to_json()) == found


def test_copies_in_clusters_tell_as_much_as_the_samples(made) -> None:
    predictions, others = made(num_samples=200), foreign(100)
    plain = evaluate(predictions, ood=others, calibrators=[], **FEW).out_of_distribution
    found = [each.rows(np.repeat(np.arange(len(each)), 3)) for each in (predictions, others)]
    names = [[f"{row:03d}" for row in np.repeat(np.arange(len(each) // 3), 3)] for each in found]
    mine, theirs = (each.with_clusters(name) for each, name in zip(found, names, strict=True))
    copied = evaluate(mine, ood=theirs, calibrators=[], **FEW).out_of_distribution
    for key, wanted in plain.arms[0].metrics.items():
        got = copied.arms[0].metrics[key]
        assert (got.value, got.low, got.high) == pytest.approx(
            (wanted.value, wanted.low, wanted.high), rel=0.02
        )


def test_scores_that_need_logits_have_no_calibrated_arms(made) -> None:
    predictions = made(num_samples=200, split=np.arange(200) % 2)
    found = evaluate(predictions, ood=foreign(50), ood_score="energy", calibrators=["temperature"], **FEW)
    assert [arm.name for arm in found.out_of_distribution.arms] == ["uncalibrated"]
