"""What must not matter to an evaluation: the unit of the weights, and copies of a label."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant import Predictions, evaluate
from calibrant.evaluation import check
from calibrant.evaluation.group_repairs import group_repairs

FEW = {"calibrators": [], "bootstrap": 200, "null_draws": 200}


def outputs(kind: str, *, seed: int = 1, number: int = 400) -> dict[str, np.ndarray]:
    """Logits 1.4 times too large: of four classes, of an event, or of three labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(number, {"classes": 4, "event": 1, "labels": 3}[kind]))
    if kind == "classes":
        return {"logits": 1.4 * logits, "labels": (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)}
    given = {"logits": 1.4 * logits, "labels": (logits + rng.logistic(size=logits.shape) > 0).astype(int)}
    return given if kind == "labels" else {name: each[:, 0] for name, each in given.items()}


@pytest.mark.parametrize("kind", ["classes", "event", "labels"])
def test_weights_of_any_unit_say_the_same(kind) -> None:
    """Shares as numbers of copies, bit by bit; only the masses of a diagram's steps have their unit."""
    given, weights = outputs(kind), np.random.default_rng(3).gamma(2, 1, 400)
    groups = np.where(np.arange(400) % 3 > 0, "a", "b")
    found = [
        evaluate(Predictions(**given, weights=unit * weights, groups=groups), **FEW).arms[0]
        for unit in (1, 2.0**-30, 2.0**20)
    ]
    for other in found[1:]:
        steps = (
            [replace(each, corp=None) for each in found[0].shapes],
            [replace(each, corp=None) for each in other.shapes],
        )
        assert steps[0] == steps[1]
        assert replace(other, shapes=()) == replace(found[0], shapes=())


def test_labels_of_a_sample_count_as_what_they_tell() -> None:
    """Independent labels narrow the intervals of a group and of the joint diagram, three copies do not."""
    given = outputs("labels", number=600)
    groups = np.where(np.arange(600) % 2 > 0, "a", "b")
    copied = {name: each[:, [0, 0, 0]] for name, each in given.items()}
    apart, copies = (evaluate(Predictions(**each, groups=groups), **FEW).arms[0] for each in (given, copied))
    for arm, decisions in ((apart, 900), (copies, 300)):
        row = arm.groups[0]
        share = row.actual.value
        for found in (row.actual, row.gap):
            width = 2 * 1.96 * np.sqrt(share * (1 - share) / decisions)
            assert found.high - found.low == pytest.approx(width, rel=0.1)
    assert (apart.groups[0].vague, copies.groups[0].vague) == (False, True)
    joint, alone = copies.curves[:2]  # of all labels, and of the first
    np.testing.assert_allclose(np.array(joint.low, float), np.array(alone.low, float), rtol=0.02, atol=0.01)


def event_by_group(number: int = 4000) -> dict[str, np.ndarray]:
    """Log-odds that are too low in group a and too high in group b."""
    rng = np.random.default_rng(1)
    logits, groups = 1.5 * rng.normal(size=number), rng.choice(["a", "b"], number)
    chance = 1 / (1 + np.exp(-logits - np.where(groups == "a", 1, -1)))
    return {"logits": logits, "labels": (rng.random(number) < chance).astype(int), "groups": groups}


def test_repairs_by_group_are_the_same_in_any_unit() -> None:
    """Constant weights are none, and each group keeps its own calibrator where weights are shares."""
    given, split = event_by_group(), np.arange(4000) % 2
    plain = group_repairs(Predictions(**given, split=split), method="platt")
    for unit in (1.0, 2.0**-12, 1024.0):
        weighted = Predictions(**given, split=split, weights=np.full(4000, unit))
        for mine, other in zip(group_repairs(weighted, method="platt"), plain, strict=True):
            assert mine.count == other.count
            assert mine.gaps[2].value == pytest.approx(other.gaps[2].value, abs=1e-9)
            assert abs(mine.gaps[2].value) < 0.06


def test_groups_count_samples_with_weight() -> None:
    """One that counts has no interval, none no value; a check by group leaves such groups out."""
    given, split = event_by_group(400), np.arange(400) % 2
    rows = np.flatnonzero((given["groups"] == "b") & (split == 1))
    clusters = np.arange(400).astype(str).astype(object)
    clusters[rows[:3]] = "one"
    for kept, named, count, reason in (
        (rows[:1], None, 1, "too few samples"),
        (rows[:0], None, 0, "too few samples"),
        (rows[:3], clusters, 3, "too few clusters"),
    ):
        weights = np.ones(400)
        weights[rows] = 0
        weights[kept] = 1
        predictions = Predictions(**given, split=split, weights=weights, clusters=named)
        found = next(each for each in group_repairs(predictions, method="platt") if each.name == "b")
        assert (found.count, found.gaps[0].low, found.gaps[0].reason) == (count, None, reason)
        assert (found.gaps[0].value is None) == (count == 0)
    weights = (given["groups"] == "a").astype(float)
    weights[rows[0]] = 1
    found = check(Predictions(**given, weights=weights), {"ece": 0.5}, bootstrap=20)
    assert [each.group for each in found.checks] == [None, "a"]
    assert "Group b was not checked: it holds one sample." in found.notes
