"""Two classes are judged by the probability of the positive one, overall and in each group."""

import json
import re

import numpy as np
import pytest

from calibrant import Predictions, evaluate
from calibrant.evaluation import Evaluation

FEW = {"bootstrap": 200, "null_draws": 400, "calibrators": []}


def sigmoid(log_odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-log_odds))


def channels(*, seed: int = 0, gap: float = 0.11) -> Predictions:
    """3000 customers of one channel, calibrated, and 450 of another, for whom too much is predicted."""
    rng = np.random.default_rng(seed)
    stated = sigmoid(rng.normal(-0.25, 1.2, 3450))
    true = np.where(np.arange(3450) < 3000, stated, np.clip(stated - gap, 0.01, 1))
    return Predictions(
        probs=stated,
        labels=rng.random(3450) < true,
        groups=np.repeat(["direct", "reseller"], [3000, 450]),
        split=np.ones(3450),
    )


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return evaluate(channels(), **FEW)


def test_a_bad_group_is_in_the_headline(found) -> None:
    """The group is named with its predicted and its actual rate; the model is not called calibrated."""
    verdict, row = found.verdict, found.arms[0].groups[1]
    assert row.name == "reseller"
    given = channels()
    mask = np.asarray(given.groups) == "reseller"
    assert row.predicted.value == pytest.approx(given.probs.numpy()[mask].mean())
    assert row.actual.value == pytest.approx(given.labels.numpy()[mask].mean())
    assert row.adjusted_p < 0.05
    assert verdict.direction != "calibrated"
    assert "1 of 2 groups is off" in verdict.short
    assert "reseller: 4" in verdict.checks[1].text
    assert "groups" in {part.name for part in found.arms[0].parts if not part.holds}


def test_errors_of_two_groups_that_cancel_are_found() -> None:
    """One is predicted ten points too much, the other too little: right on average, and miscalibrated."""
    rng = np.random.default_rng(5)
    stated = 0.2 + 0.6 * rng.random(3000)
    groups = np.repeat(["old", "young"], 1500)
    true = stated + np.where(groups == "old", 0.08, -0.08)
    found = evaluate(Predictions(probs=stated, labels=rng.random(3000) < true, groups=groups), **FEW)
    assert found.verdict.short.startswith("Partly miscalibrated: 2 of 2 groups are off")
    assert found.verdict.direction == "calibrated in part"


def test_a_rare_event_that_is_off_in_places_is_found() -> None:
    """3% positives, too many in some ranges and too few in others: not calibrated, and a range is named."""
    rng = np.random.default_rng(3)
    log_odds = rng.normal(-3.6, 0.9, 20_000)
    true = sigmoid(log_odds + 0.5 * np.sin(3.2 * (log_odds + 3.6) / 0.9))
    found = evaluate(Predictions(probs=sigmoid(log_odds), labels=rng.random(20_000) < true), **FEW)
    assert found.verdict.direction not in {"calibrated", "undecided"}
    where = found.arms[0].parts[0].where
    assert 0 < where.low < where.high < 0.5
    assert any(re.match(r"Furthest off between .* actual\)\.$", each) for each in found.verdict.sentences)


def test_too_high_and_too_low_are_told_apart() -> None:
    """By the mean probability and the rate of the positive class, whichever class is the commoner."""
    rng = np.random.default_rng(4)
    log_odds = rng.normal(-1, 1, 2000)
    labels = rng.random(2000) < sigmoid(log_odds)
    for moved, direction in ((0.6, "over-predicting"), (-0.6, "under-predicting")):
        found = evaluate(Predictions(logits=log_odds + moved, labels=labels), **FEW)
        assert found.verdict.direction == direction
        turned = evaluate(Predictions(logits=-log_odds - moved, labels=~labels), **FEW)
        assert turned.verdict.direction == (
            "under-predicting" if direction == "over-predicting" else "over-predicting"
        )


def test_a_group_with_too_few_samples_is_called_untested() -> None:
    """It is named with its rates, whether the others pass or fail; and nothing is called done."""
    rng = np.random.default_rng(1)
    probs = 0.1 + 0.6 * rng.random(3050)
    given = Predictions(
        probs=probs, labels=rng.random(3050) < probs, groups=np.repeat(["direct", "reseller"], [3000, 50])
    )
    verdict = evaluate(given, **{**FEW, "calibrators": ["temperature"]}).verdict
    assert verdict.direction == "calibrated"
    assert re.match(r"none of 2 are off; too few samples to test reseller: \d", verdict.checks[1].text)
    assert verdict.line.endswith("Test more samples of reseller.")
    given = channels()
    names = np.where(np.arange(3450) < 50, "web", given.groups)
    verdict = evaluate(Predictions(probs=given.probs, labels=given.labels, groups=names), **FEW).verdict
    assert re.match(r"1 of 3 are off \(reseller: .*\); too few samples to test web$", verdict.checks[1].text)


def test_an_evaluation_of_schema_version_2_is_read(found) -> None:
    old = json.loads(found.to_json())
    old["schema_version"] = 2
    for row in old["arms"][0]["groups"]:
        row["accuracy"], row["mean_confidence"] = row.pop("actual"), row.pop("predicted")
        del row["p_value"]
    read = Evaluation.from_json(json.dumps(old))
    assert read.schema_version == found.schema_version
    for mine, theirs in zip(read.arms[0].groups, found.arms[0].groups, strict=True):
        assert (mine.actual, mine.predicted) == (theirs.actual, theirs.predicted)
        assert mine.p_value == theirs.null.p_value


@pytest.mark.parametrize("event", [0, 1])
def test_no_event_of_a_rare_one_says_little(event) -> None:
    """80 samples at 1.6% in which none occurs, and the reverse: an average that is off, and a test passed."""
    probs = np.random.default_rng(0).beta(1, 60, 80)
    given = Predictions(probs=probs if event == 0 else 1 - probs, labels=np.full(80, event))
    headline = evaluate(given, **FEW).verdict.headline
    assert re.match(r"Unclear: average probability .*, but the calibration test passes\.$", headline), (
        headline
    )
