"""What must not matter to an evaluation: the unit of the weights, and copies of a label."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant import Predictions, evaluate

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
