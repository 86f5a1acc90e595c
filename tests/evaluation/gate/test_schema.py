"""The documented JSON Schemas of ``calibrant check`` and of an evaluation."""

import json
from pathlib import Path

import numpy as np
import pytest

from calibrant import Predictions
from calibrant.evaluation import Evaluation, check
from calibrant.evaluation.gate.result import GateResult
from calibrant.predictions import DensePredictions
from command_line import call
from json_schema import faults

DOCUMENTED = Path(__file__).parents[3] / "docs" / "reference" / "check.schema.json"
LIMITS = {"ece": 0.0, "accuracy": 0.99}


def faults_of(text: str) -> list[str]:
    """Where a text differs from the schema."""
    schema = json.loads(DOCUMENTED.read_text(encoding="utf-8"))
    return list(faults(json.loads(text), schema, schema))


def test_the_documented_schema_is_current() -> None:
    """It is ``json.dumps(GateResult.json_schema(), indent=2)`` and a newline: write that to renew it."""
    assert json.loads(DOCUMENTED.read_text(encoding="utf-8")) == GateResult.json_schema()


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "top_label"])
def test_answers_of_every_kind_obey_it(made, kind) -> None:
    """Limits and baselines, paired and not, in groups and in clusters, of many samples and of two."""
    groups, strict = np.arange(200) % 3, kind in {"binary", "multilabel"}
    mine, other = (made(kind, 200, sharpness=s, groups=groups) for s in (2.0, 1.0))
    for found in (
        check(mine, LIMITS, baseline=other, strict=strict, bootstrap=20),
        check(mine, LIMITS, baseline=made(kind, 90, seed=1), baseline_metrics=["accuracy"], bootstrap=20),
        check(mine, {"ece": 1.0}, cluster=np.arange(200) // 5, groups="none", bootstrap=20),
        check(mine.rows(np.arange(2)), {"ece": 0.5}, strict=strict, bootstrap=20),
    ):
        assert faults_of(found.to_json()) == []


def test_what_is_infinite_obeys_it() -> None:
    found = check(Predictions(probs=[0.0, 0.5, 0.5], labels=[1, 0, 1]), {"nll": 1.0}, bootstrap=20)
    assert (found.checks[0].value, faults_of(found.to_json())) == (None, [])


def test_answers_for_images_obey_it() -> None:
    rng = np.random.default_rng(0)
    images = DensePredictions(logits=rng.normal(size=(3, 2, 4, 4)), labels=rng.integers(0, 2, (3, 4, 4)))
    assert faults_of(check(images, LIMITS, bootstrap=20).to_json()) == []


def test_the_command_obeys_it(tmp_path) -> None:
    (tmp_path / "p.csv").write_text("prob,label\n" + "0.2,0\n0.8,1\n" * 20)
    for arguments, code in ((("p.csv", "--max-ece", "0.5"), 0), (("none.csv", "--max-ece", "0.5"), 2)):
        done = call("check", *arguments, "--json", "-", "--bootstrap", "20", folder=tmp_path)
        assert (done.returncode, faults_of(done.stdout)) == (code, [])
    assert "error" in json.loads(done.stdout)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"passed": 1}, ".passed: 1 is no boolean"),
        ({"kind": "other"}, ".kind: 'other' is none of ['binary', 'multiclass', 'multilabel', 'top_label']"),
        ({"more": 1}, ".more is unknown"),
        ({"num_bins": 1.5}, ".num_bins: 1.5 is no integer"),
    ],
)
def test_other_texts_do_not(changes, fault) -> None:
    found = check(Predictions(probs=[0.2, 0.5, 0.5], labels=[1, 0, 1]), {"ece": 1.0}, bootstrap=20)
    assert faults_of(json.dumps(json.loads(found.to_json()) | changes)) == [fault]


EVALUATION = Path(__file__).parents[3] / "docs" / "reference" / "evaluation.schema.json"


def test_the_schema_of_evaluations_is_current() -> None:
    """It is ``json.dumps(Evaluation.json_schema(), indent=2)`` and a newline: write that to renew it."""
    assert json.loads(EVALUATION.read_text(encoding="utf-8")) == Evaluation.json_schema()
