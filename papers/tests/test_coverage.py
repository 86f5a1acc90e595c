"""The coverage study, small: true errors, redrawn labels, and what is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import metrics
from calibrant.evaluation.judging.measure import against_chance, measure
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.quantities import largest_cumulative_difference as largest_sum
from calibrant.evaluation.verdict.finding import find
from papers.coverage import COVERAGE, PAGE
from papers.coverage.again import run_again
from papers.coverage.claims import (
    Share,
    claims,
    covered,
    gate_alarms,
    mean_coverage,
    over_cells,
    pooled,
    verdict_alarms,
)
from papers.coverage.fingerprint import fingerprint
from papers.coverage.measure import (
    RECORDS,
    finished,
    judged,
    procedure_of,
    run_coverage,
)
from papers.coverage.numbers import compared, numbers_of
from papers.coverage.populations import (
    Normal,
    coarser,
    draw_labels,
    smoothed,
    softmax,
    stated,
)
from papers.coverage.settings import Method, Setting
from papers.coverage.summary import summary_of
from papers.coverage.truth import event_errors, normal_gaps, normal_truth
from papers.coverage.verdicts import judged_parts, word
from papers.coverage.words import words
from papers.study import Session

SMALL = Setting(
    method=Method(num_draws=40, sets=2, resamples=20, truth_samples=2000, changed_sets=1),
    classes=(3,),
    samples=(60,),
    scales=(1.0, 1.3),
    alarm_sets=2,
    changed_classes=(),
    compared=(),
)


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
def test_true_errors_are_the_metrics_where_the_truth_is_certain(ties: bool) -> None:
    """With outcomes for true probabilities every error is the public one; smECE but for its cells."""
    rng = np.random.default_rng(0)
    confidence = rng.random(300).round(1 if ties else 12)
    outcomes = (rng.random(300) < confidence**2).astype(np.float64)
    found = event_errors(confidence, outcomes, 15)
    given = torch.from_numpy(confidence), torch.from_numpy(outcomes).long()
    public = {
        "ece": metrics.expected_calibration_error(*given, num_bins=15),
        "adaptive_ece": metrics.expected_calibration_error(*given, num_bins=15, binning="mass"),
        "l2_ece": metrics.expected_calibration_error(*given, num_bins=15, norm="l2"),
        "mce": metrics.maximum_calibration_error(*given, num_bins=15),
        "smce": metrics.smooth_calibration_error(*given),
        "over_confidence_error": metrics.over_confidence_error(*given, num_bins=15),
        "under_confidence_error": metrics.under_confidence_error(*given, num_bins=15),
    }
    assert {key: found[key] for key in public} == pytest.approx(
        {key: value.item() for key, value in public.items()}, abs=1e-12
    )
    assert found["kolmogorov_smirnov"] == pytest.approx(
        largest_sum(confidence, outcomes, None, 15), abs=1e-12
    )
    assert found["smooth_ece"] == pytest.approx(metrics.smooth_ece(*given).item(), abs=1e-3)
    assert set(found) == {*public, "kolmogorov_smirnov", "smooth_ece"}


def test_true_class_wise_error_is_the_mean_over_the_classes() -> None:
    """Pooled over classes that are alike, it is what many labels give."""
    logits, labels = Normal(4, 1.5).draw(60_000, np.random.default_rng(1))
    probs = torch.from_numpy(1.6 * logits).softmax(dim=1)
    drawn = metrics.classwise_calibration_error(probs, torch.from_numpy(labels), num_bins=15).item()
    true = normal_truth(4, 1.6, Method(truth_samples=60_000))
    assert true["classwise_ece"] == pytest.approx(drawn, abs=0.003)
    assert true["classwise_ece"] > 0.02
    assert set(normal_truth(4, 1.0, Method()).values()) == {0.0}


def test_labels_have_their_probabilities() -> None:
    """The shares drawn are those of the truth."""
    truth = np.tile([0.2, 0.5, 0.3], (20_000, 1))
    shares = np.bincount(draw_labels(truth, np.random.default_rng(0))) / 20_000
    np.testing.assert_allclose(shares, truth[0], atol=0.015)


def test_smoothed_truth_moves_to_what_happens() -> None:
    """Rows sum to one, follow a planted bend, and stay where nothing was seen."""
    rng = np.random.default_rng(0)
    positive = rng.random(20_000)
    probs = np.stack([1 - positive, positive], axis=1)
    labels = (rng.random(20_000) < positive**2).astype(np.int64)
    rows = np.array([[0.5, 0.5], [0.2, 0.8]])
    truth = smoothed(probs, labels, rows, 0.5)
    np.testing.assert_allclose(truth.sum(axis=1), 1.0)
    np.testing.assert_allclose(truth[:, 1], rows[:, 1] ** 2, atol=0.03)
    np.testing.assert_array_equal(smoothed(probs[:0], labels[:0], rows, 0.5), rows)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_set_is_judged_as_by_evaluate(classes: int) -> None:
    """Estimates and the verdict's parts are those of an arm of an evaluation."""
    logits, labels = Normal(classes, 1.5).draw(200, np.random.default_rng(2))
    predictions = stated(logits, labels, 1.6)
    procedure = procedure_of(predictions.kind, SMALL.method, 3)
    found, noise = judged(predictions, procedure, ("smooth_ece",))
    arm = measure(reduce_predictions(predictions, 15), procedure)
    first = "event_" if classes == 2 else ""
    for key in ("ece", "smce", "adaptive_ece"):
        estimate = arm.metrics[f"{first}{key}"]
        assert found[key]["value"] == estimate.value
        assert (found[key]["low"], found[key]["high"]) == (estimate.low, estimate.high)
        assert found[key]["without_chance"] == estimate.without_chance
    chance = against_chance(arm.noise, tuple(map(str, range(classes))))
    verdict = judged_parts(noise)
    assert verdict == chance.parts
    assert word(noise, verdict).partition(":")[0] == find(arm, verdict, 0.95).direction
    assert ("classwise_ece" in found) == (classes > 2)


def test_what_is_counted() -> None:
    """Intervals above and below the truth, real errors, the old bootstrap, and alarms of any part."""
    ends = {"value": [0.3, 0.2, 0.1], "low": [0.2, 0.0, 0.0], "high": [0.4, 0.3, 0.05]}
    lists = {**ends, "without_chance": [0.3, 0.1, 0.0], "p": [0.01, 0.02, 0.05]}
    record = {
        "seed": 0,
        "cell": {"classes": 3, "samples": 60, "scale": 1.3, "file": None, "stated": None, "after": None},
        "truth": {"ece": 0.1},
        "errors": {"ece": lists},
        "centred": {"ece": {"low": [0.0], "high": [0.1]}},
        "parts": {"top label": [0.01, 0.9, 0.9], "slope": [0.02, 0.04, 0.9]},
        "words": ["over-confident", "undecided: few samples", "calibrated"],
    }
    (cell,) = numbers_of([record], SMALL)["cells"]
    error = cell["errors"]["ece"]
    assert [error[name] for name in ("sets", "covered", "above", "below")] == pytest.approx(
        [3, 1 / 3, 1 / 3, 1 / 3]
    )
    assert error["width"] == pytest.approx((0.2 + 0.3 + 0.05) / 3, abs=1e-6)
    assert (error["real"], error["disagree"]) == pytest.approx((2 / 3, 1 / 3))
    assert error["centred"] == {"sets": 1, "covered": 1.0, "width": 0.1, "inverted_width": 0.2}
    assert cell["verdict"]["alarms"] == pytest.approx(2 / 3)
    assert cell["verdict"]["words"]["undecided: few samples"] == pytest.approx(1 / 3)
    assert cell["verdict"]["parts"] == pytest.approx({"top label": 1 / 3, "slope": 2 / 3})


def test_the_largest_gap_is_that_of_bins_with_samples() -> None:
    """Its true value is another for each set, also for the centred bootstrap on the first one."""
    lists = {"value": [0.3, 0.2], "low": [0.2, 0.0], "high": [0.4, 0.3], "without_chance": [0.3, 0.1]}
    record = {
        "seed": 0,
        "cell": {"classes": 3, "samples": 60, "scale": 1.3, "file": None, "stated": None, "after": None},
        "truth": {"mce": 0.9},
        "errors": {"mce": {**lists, "p": [0.01, 0.2], "truth": [0.3, 0.5]}},
        "centred": {"mce": {"low": [0.25], "high": [0.35]}},
        "parts": {"slope": [0.9, 0.9]},
        "words": [],
    }
    (cell,) = numbers_of([record], SMALL)["cells"]
    error = cell["errors"]["mce"]
    assert [error[name] for name in ("covered", "above", "below", "truth")] == [0.5, 0.0, 0.5, 0.4]
    assert error["centred"]["covered"] == 1.0


def test_true_gaps_of_bins_are_those_of_the_largest_one() -> None:
    """The largest of them is the true MCE; a calibrated population has none."""
    method = Method(truth_samples=4000)
    gaps = normal_gaps(3, 1.6, method)
    assert np.abs(gaps).max() == pytest.approx(normal_truth(3, 1.6, method)["mce"], abs=1e-12)
    assert not normal_gaps(3, 1.0, method).any()


def test_sets_without_intervals_speak_for_alarms_and_coverage() -> None:
    """Where the truth is stated they are added to both, but not to the mean coverage of all cells."""
    cell: dict[str, Any] = {
        "scale": 1.0,
        "stated": None,
        "sets": 100,
        "errors": {"ece": {"covered": 0.9, "real": 0.1, "sets": 100}},
        "verdict": {"alarms": 0.1},
        "further": {"sets": 300, "real": {"ece": 6}, "verdict": 6},
    }
    (real,), (blamed,), covers = gate_alarms([cell], "ece"), verdict_alarms([cell]), covered(cell, "ece")
    assert (real.value, blamed.value, covers.value) == pytest.approx((16 / 400, 16 / 400, 384 / 400))
    assert (real.sets, blamed.sets, covers.sets) == (400, 400, 400)
    assert mean_coverage({"cells": [cell]}, "ece") == Share(value=0.9, sets=100)


def test_an_aim_is_decided_by_an_interval() -> None:
    """Kept or missed where Wilson's interval lies on one side; missed among many only by a wider one."""
    assert Share(value=480 / 500, sets=500).at_least(0.91) == "holds"
    assert Share(value=48 / 50, sets=50).at_least(0.91) == "undecided"
    assert Share(value=400 / 500, sets=500).at_least(0.91) == "does not hold"
    low = Share(value=36 / 44, sets=44)
    assert (low.at_least(0.91), low.at_least(0.91, looks=72)) == ("does not hold", "undecided")
    high = Share(value=8 / 44, sets=44)
    assert (high.at_most(0.08), high.at_most(0.08, looks=72)) == ("does not hold", "undecided")
    assert Share(value=20 / 500, sets=500).at_most(0.08) == "holds"
    assert Share(value=2 / 50, sets=50).at_most(0.08) == "undecided"
    assert Share(value=100 / 500, sets=500).at_most(0.08) == "does not hold"


def test_batches_add_sets_and_a_page_shows_what_there_is(tmp_path: Path) -> None:
    """Two cells of two sets, then of four; the page can be written after either."""
    one = run_coverage(tmp_path, folder=None, seeds=range(1), setting=SMALL, tell=lambda _: None)
    assert [cell["sets"] for cell in numbers_of(one, SMALL)["cells"]] == [2, 2]
    before = (tmp_path / RECORDS).read_text(encoding="utf-8")
    two = run_coverage(tmp_path, folder=None, seeds=range(2), setting=SMALL, tell=lambda _: None)
    assert (tmp_path / RECORDS).read_text(encoding="utf-8").startswith(before)
    numbers = numbers_of(two, SMALL)
    assert [cell["sets"] for cell in numbers["cells"]] == [4, 4]
    assert {claim.verdict for claim in claims(numbers)} >= {"holds", "undecided"}
    text = PAGE.write(numbers, tmp_path / "page")[0].read_text(encoding="utf-8")
    assert "4 in each cell" in text
    assert "nan" not in text


@pytest.fixture(scope="module")
def one_batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a batch of each cell."""
    store = tmp_path_factory.mktemp("coverage")
    run_coverage(store, folder=None, seeds=range(1), setting=SMALL, tell=lambda _: None)
    return store


def test_a_table_of_what_is_finished(one_batch: Path, tmp_path: Path) -> None:
    """With `--table` nothing is judged, and only what is finished is shown."""
    COVERAGE.run(Session(), SMALL, data=None, out=one_batch, seeds=9, table=tmp_path / "page")
    numbers = json.loads((tmp_path / "page" / "coverage.json").read_text(encoding="utf-8"))
    assert numbers["batches"] == 1
    assert numbers["cells"][0]["sets"] == 2


def test_a_batch_of_earlier_code_is_judged_once_more(
    one_batch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the code of today is not; the same code finds the same intervals, and the page says so."""
    store = tmp_path / RECORDS
    store.write_bytes((one_batch / RECORDS).read_bytes())
    lines = len(store.read_text(encoding="utf-8").splitlines())
    for code, more in ((fingerprint(), 0), ("later", 2), ("later", 2)):
        for room in ("again", "measure"):
            monkeypatch.setattr(f"papers.coverage.{room}.fingerprint", lambda code=code: code)
        run_again(tmp_path, folder=None, seeds=range(3), setting=SMALL, tell=lambda _: None)
        assert len(store.read_text(encoding="utf-8").splitlines()) == lines + more
    numbers = numbers_of(finished(tmp_path, SMALL), SMALL)
    assert set(numbers["again"]) == {"ece", "classwise_ece", "smce"}
    for each in numbers["again"].values():
        assert (each["sets"], each["moved"], each["width"]) == (4, 0, 1.0)
        assert each["before"] == each["covered"]
    text = PAGE.write(numbers, tmp_path / "page")[0].read_text(encoding="utf-8")
    assert "0 of 4 on the other side, 1.000 times as wide" in text
    assert "by the code of fingerprint `later`" in text


def test_intervals_of_sets_judged_twice_are_set_side_by_side() -> None:
    """How many hold the truth by either code, how many changed, and how wide they became; of one code."""
    before = {"low": [0.1, 0.1], "high": [0.2, 0.3]}
    now = {"low": [0.1, 0.0], "high": [0.3, 0.3]}
    batches = [
        {"seed": 0, "truth": {"ece": 0.25}, "errors": {"ece": before}},
        {"seed": 0, "code": "later", "again": {"ece": now}},
        {"seed": 0, "code": "earlier", "again": {"ece": before}},
    ]
    found = compared([batches], "later")["ece"]
    assert found == pytest.approx({"sets": 2, "before": 0.5, "covered": 1.0, "moved": 1, "width": 1.75})


def test_sets_added_to_one_cell_stand_by_themselves() -> None:
    """They are told apart from those that all calibrated cells have, and both count for its alarms."""
    lists = {"value": [0.1], "low": [0.0], "high": [0.2], "without_chance": [0.0], "p": [0.5]}
    records: list[dict[str, Any]] = []
    for classes, batches in ((3, 3), (4, 1)):
        cell = {"classes": classes, "samples": 60, "scale": 1.0, "file": None, "stated": None}
        found = {"truth": {"ece": 0.0}, "errors": {"ece": lists}, "centred": {}, "words": []}
        records.append({"seed": 0, "cell": {**cell, "after": None}, **found, "parts": {"slope": [0.9]}})
        alarms = [{"sets": 10, "real": {"ece": seed}, "verdict": 0} for seed in range(batches)]
        known = {**cell, "model": None}  # as later records name cells
        records += [{"seed": seed, "cell": known, "alarms": each} for seed, each in enumerate(alarms)]
    more, plain = numbers_of(records, SMALL)["cells"]
    assert (more["further"]["sets"], more["further"]["real"]["ece"]) == (30, 3)
    assert (more["added"]["sets"], more["added"]["real"]["ece"]) == (20, 3)
    assert plain["further"]["sets"] == 10
    assert "added" not in plain
    said = words({"setting": {**vars(SMALL.method)}, "cells": [more, plain], "changes": [], "again": {}})
    assert said["further"] == "10"
    assert said["added"].startswith("K = 3, n = 60, s = 1 has 20 more")
    assert "ECE 0.150" in said["added"]


def test_a_cell_with_more_sets_counts_no_more() -> None:
    """Means over cells are those of the cells' shares, also in the file that reports quote."""
    found = [Share(value=0.9, sets=200), Share(value=1.0, sets=50), Share(value=1.0, sets=50)]
    cells = [
        {"classes": 10, "samples": n, "scale": 1.6, "before": 1.6, "after": 1.0, "model": None}
        | {"errors": {"ece": {"covered": share.value, "sets": share.sets}}, "stated": None}
        for n, share in enumerate(found)
    ]
    mean = over_cells(found)
    assert (mean.value, mean.sets) == (pytest.approx(2.9 / 3), 200)  # 3 cells, 1/200 + 2/50
    assert over_cells(found[1:]) == pooled(found[1:])
    assert summary_of({"setting": {"level": 0.95}, "cells": [], "changes": cells})["changes"]["ece"][
        "average"
    ] == round(2.9 / 3, 4)


def test_another_model_is_as_calibrated_and_knows_less() -> None:
    """Its confidence is right as often as it says, which is less often."""
    logits, _ = Normal(4, 1.5).draw(20_000, np.random.default_rng(3))
    truth, known = softmax(logits), softmax(coarser(logits, np.random.default_rng(4)))
    rows, top = np.arange(len(truth)), known.argmax(axis=1)
    assert event_errors(known[rows, top], truth[rows, top], 15)["ece"] < 0.01
    assert truth[rows, top].mean() < truth.max(axis=1).mean() - 0.02
