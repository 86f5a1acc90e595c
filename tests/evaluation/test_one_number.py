"""One number for one question: every door gives the same value, interval and p-value for the same file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import Predictions, compare, evaluate, load_predictions, metrics
from calibrant.evaluation import check, monitor
from calibrant.evaluation.arguments import FILE, Procedure, coverage_of
from calibrant.evaluation.pipeline import judged_as_it_is
from calibrant.evaluation.result import Intervals
from papers.analysis import content
from papers.coverage.run import packaged

SIZE = 240
Values = dict[str, Any]
Maker = Callable[[np.random.Generator], Values]


def event(rng: np.random.Generator, *, base: float = 0.0) -> Values:
    log_odds = rng.normal(base, 1.5, SIZE)
    labels = (rng.random(SIZE) < 1 / (1 + np.exp(-0.6 * (log_odds - base) - base))).astype(int)
    return {"probs": 1 / (1 + np.exp(-log_odds)), "labels": labels}


def classes(rng: np.random.Generator, number: int = 4) -> Values:
    """Classes that are stated with too much confidence."""
    logits = rng.normal(size=(SIZE, number))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (rng.random(SIZE)[:, None] > np.cumsum(probs, axis=1)).sum(axis=1).clip(0, number - 1)
    return {"logits": 2 * logits, "labels": labels}


def labels_of_three(rng: np.random.Generator) -> Values:
    probs = rng.random((SIZE, 3))
    return {"probs": probs, "labels": (rng.random((SIZE, 3)) < probs**1.5).astype(int)}


def confidences(rng: np.random.Generator) -> Values:
    """How sure the answers were, and whether they were right."""
    confidence = 0.3 + 0.7 * rng.random(SIZE)
    return {"confidence": confidence, "correct": rng.random(SIZE) < confidence - 0.1}


def beside(
    make: Callable[..., Values], **more: Callable[[np.random.Generator], Any]
) -> Callable[..., Values]:
    """The same with weights, clusters or groups."""
    return lambda rng: {**make(rng), **{name: values(rng) for name, values in more.items()}}


def weights(rng: np.random.Generator) -> Any:
    return rng.choice([0.5, 1.0, 3.0], SIZE)


def names(rng: np.random.Generator) -> Any:
    return rng.integers(0, 40, SIZE).astype(str)


FILES: dict[str, Maker] = {
    "event.csv": event,
    "rare.npz": lambda rng: event(rng, base=-3.0),
    "weighted.parquet": beside(event, weights=weights),
    "clustered.jsonl": beside(event, clusters=names),
    "classes.npz": classes,
    "weighted-classes.json": beside(classes, weights=weights),
    "clustered-classes.parquet": beside(classes, clusters=names),
    "two-columns.tsv": lambda rng: classes(rng, 2),
    "labels.npz": labels_of_three,
    "confidences.csv": confidences,
}


@pytest.fixture(params=FILES)
def found(request: pytest.FixtureRequest, tmp_path: Path) -> Predictions:
    path = tmp_path / request.param
    Predictions(**FILES[request.param](np.random.default_rng(0))).save(path)
    return load_predictions(path)


def test_every_door_gives_the_same_numbers(found) -> None:
    evaluation = evaluate(found, calibrators=(), bootstrap=100)
    arm = evaluation.arms[0]
    nulls = {null.metric: null.p_value for null in arm.null}
    judged = compare([("a", found), ("b", found)], bootstrap=100).models[0]
    assert (judged.metrics, judged.null, judged.curves, judged.parts) == (
        arm.metrics,
        arm.null,
        arm.curves,
        arm.parts,
    )
    stream = monitor(found, np.zeros(SIZE), window=1.0, bootstrap=100)
    assert stream.windows[0].metrics == arm.metrics
    kind, _, drawn = judged_as_it_is(found)
    assert kind == evaluation.kind
    assert {key: each.value for key, each in drawn.metrics.items()} == {
        key: each.value for key, each in arm.metrics.items()
    }
    assert (drawn.curves, drawn.parts) == (arm.curves, arm.parts)
    for each in check(found, {"ece": 0.0, "adaptive_ece": 0.0}).checks:
        assert each.value == pytest.approx(arm.metrics[each.key].value, abs=1e-12)
        assert each.p_value == pytest.approx(nulls[each.key], abs=1e-12)
    page = json.loads(evaluation.to_json())
    main = "event_ece" if kind == "binary" else "ece"
    assert page["arms"][0]["metrics"][main]["value"] == arm.metrics[main].value
    found = found.as_binary() if kind == "binary" else found
    stated, truth = (found.confidence, found.correct) if found.labels is None else (found.probs, found.labels)
    value = metrics.expected_calibration_error(stated, truth, weights=found.weights)
    assert float(value) == pytest.approx(arm.metrics[main].value, abs=1e-12)


def procedure(intervals: Intervals = "inverted", level: float = 0.95) -> Procedure:
    return Procedure(
        kind="binary", num_bins=15, num_resamples=20, num_draws=20, level=level, seed=0, intervals=intervals
    )


def test_the_package_says_what_the_study_found() -> None:
    """The file in the package is the summary of the page's numbers; the study renews both."""
    assert packaged(content("coverage")) == {FILE: json.loads(FILE.read_text(encoding="utf-8"))}


def test_coverage_is_told_of_what_was_measured_alone() -> None:
    """The forms of an error and its debiased one share it; means and other kinds of interval have none."""
    found = coverage_of(procedure(), ["event_ece", "ece", "debiased_ece", "nll", "no_such_metric"])
    assert list(found.values) == ["event_ece", "ece", "debiased_ece"]
    assert found.values["event_ece"] == found.values["debiased_ece"]
    assert coverage_of(procedure("centred"), ["ece"]) is None
    assert coverage_of(procedure(level=0.9), ["ece"]) is None
