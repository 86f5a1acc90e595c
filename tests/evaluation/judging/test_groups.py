"""The table by group."""

import json

import numpy as np
import pytest

from calibrant import Predictions, evaluate, metrics
from calibrant.evaluation import Evaluation
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.judging.groups import group_rows
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.phrases import group_sentence
from calibrant.evaluation.resampling.intervals import holm

FEW = {"bootstrap": 200, "null_draws": 200, "calibrators": []}


def mixed(sizes: dict[str, int], sharp: set[str], *, seed: int = 0, **more: object) -> Predictions:
    """Groups of these sizes; the sharp ones state three times the true log-odds."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(list(sizes), list(sizes.values()))
    groups = groups[rng.permutation(len(groups))]
    logits = rng.normal(size=(len(groups), 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    factor = np.where(np.isin(groups, list(sharp)), 3.0, 1.0)[:, None]
    return Predictions(logits=factor * logits, labels=labels, groups=groups, **more)


def test_rows_are_what_the_metrics_say_of_the_groups_samples() -> None:
    """Count, accuracy, confidence, gap and ECE of each group, computed on its rows alone; also weighted."""
    rng = np.random.default_rng(1)
    for weights in (None, rng.integers(0, 4, 900).astype(float)):
        predictions = mixed({"north": 500, "south": 390, "x": 10}, {"south"}, weights=weights)
        found = evaluate(predictions.with_split(np.ones(900)), **FEW)
        assert [row.name for row in found.arms[0].groups] == ["north", "south", "x"]
        for row in found.arms[0].groups:
            mask = np.asarray(predictions.groups) == row.name
            part = predictions.rows(mask)
            mass = None if weights is None else weights[mask]
            assert row.count == mask.sum()
            ece = metrics.expected_calibration_error(part.probs, part.labels, weights=mass).item()
            assert row.ece.value == pytest.approx(ece, abs=1e-12)
            accuracy = np.average(part.correct.numpy(), weights=mass)
            stated = np.average(part.confidence.numpy(), weights=mass)
            assert row.actual.value == pytest.approx(accuracy, abs=1e-12)
            assert row.predicted.value == pytest.approx(stated, abs=1e-12)
            assert row.gap.value == pytest.approx(stated - accuracy, abs=1e-12)


def test_the_bad_group_is_found_and_the_small_one_is_flagged() -> None:
    """Adjusted p-values leave the honest groups alone; ten samples tell nothing, and it is said."""
    found = evaluate(mixed({"bad": 480, "good": 480, "tiny": 10}, {"bad"}), **FEW)  # all in turn
    rows = {row.name: row for row in found.arms[0].groups}
    assert rows["bad"].adjusted_p < 0.05 < rows["good"].adjusted_p
    assert rows["bad"].gap.low > 0.1
    assert not rows["good"].vague
    assert rows["tiny"].vague
    sentence = found.verdict.sentences[-2]
    assert sentence.startswith("1 of 3 groups is miscalibrated beyond noise (bad: ")
    assert sentence.endswith("corrected for 3 tests (Holm); 1 is too small to show an error of 5.0%.")


def test_calibrated_groups_are_rarely_accused() -> None:
    """Of 24 evaluations of 8 calibrated groups, about 5 % find any; 3 σ above is 4."""
    accused = 0
    procedure = Procedure(kind="multiclass", num_bins=15, num_resamples=2, num_draws=50, level=0.95, seed=0)
    for seed in range(24):
        predictions = mixed(dict.fromkeys("abcdefgh", 60), set(), seed=seed)
        rows = group_rows(reduce_predictions(predictions, 15), predictions.groups, procedure)
        accused += any(row.adjusted_p < 0.05 for row in rows)
    assert accused <= 4


def test_holms_adjustment_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.6]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_groups_of_one_and_without_weight() -> None:
    """A single sample has values, Wilson's intervals and a p-value; a group without weight has no row."""
    weights = np.ones(102)
    weights[100] = 0
    rng = np.random.default_rng(0)
    predictions = Predictions(
        logits=rng.normal(size=(102, 3)),
        labels=np.arange(102) % 3,
        groups=["all"] * 100 + ["nothing", "single"],
        weights=weights,
    )
    found = evaluate(predictions.with_split(np.ones(102)), **FEW)
    assert [row.name for row in found.arms[0].groups] == ["all", "single"]
    row = found.arms[0].groups[1]
    assert row.vague
    assert row.ece.low is None
    assert row.ece.reason == "no interval: one sample"
    assert row.actual.low < row.actual.high
    assert 0 < row.adjusted_p <= 1


@pytest.mark.parametrize("kind", ["binary", "multilabel", "top_label"])
def test_every_kind_has_groups(made, kind) -> None:
    """The gap is that of the event, else of the decisions; several labels have the mean of their ECEs."""
    groups = np.array(["a", "b"])[np.arange(600) % 2]
    predictions = made(kind, sharpness=2.5, groups=groups)
    found = evaluate(predictions.with_split(np.ones(600)), **FEW)
    for row in found.arms[0].groups:
        part = predictions.rows(groups == row.name)
        if kind == "multilabel":
            each = [
                metrics.expected_calibration_error(part.probs[:, k], part.labels[:, k]).item()
                for k in range(4)
            ]
            assert row.ece.value == pytest.approx(np.mean(each), abs=1e-12)
        judged = (part.probs, part.labels) if kind == "binary" else (part.confidence, part.correct)
        gap = (judged[0] - judged[1].double()).mean().item()
        assert row.gap.value == pytest.approx(gap, abs=1e-12)
        assert row.gap.low <= row.gap.value <= row.gap.high


def test_every_arm_has_the_table_and_json_keeps_it() -> None:
    """Calibrators are judged group by group; text and back changes nothing; without groups it is empty."""
    predictions = mixed({"bad": 600, "good": 600}, {"bad", "good"})
    found = evaluate(predictions, bootstrap=50, null_draws=50, calibrators=["temperature"])
    before, after = found.arms
    for old, new in zip(before.groups, after.groups, strict=True):
        assert old.count == new.count
        assert new.ece.value < old.ece.value
    assert Evaluation.from_json(found.to_json()) == found
    assert json.loads(found.to_json())["arms"][0]["groups"][0]["name"] == "bad"
    assert evaluate(predictions.rows(slice(0, 300)).with_split(np.ones(300)), **FEW).arms[0].groups != ()
    assert (
        evaluate(Predictions(logits=predictions.values, labels=predictions.labels), **FEW).arms[0].groups
        == ()
    )


def test_small_groups_are_judged_as_one() -> None:
    """Each below 30 samples, and all but the 100 largest; the row's name and the sentence count them."""
    sizes = {f"g{k:03}": 30 + (k < 100) for k in range(104)} | {"small": 29}
    size = sum(sizes.values())
    found = evaluate(mixed(sizes, set()).with_split(np.ones(size)), bootstrap=2, null_draws=2, calibrators=[])
    rows = found.arms[0].groups
    assert [row.name for row in rows] == [*(f"g{k:03}" for k in range(100)), "other (5 groups)"]
    assert (rows[-1].count, sum(row.count for row in rows)) == (4 * 30 + 29, size)
    said = group_sentence(rows, 105, 0.95)
    assert said.startswith("None of 101 groups are miscalibrated beyond noise")
    assert said.endswith("; 5 small groups are pooled.")
