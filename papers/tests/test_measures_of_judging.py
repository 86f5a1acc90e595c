"""What the studies of calibrators and of coverage measure, on the smallest settings."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from calibrant import metrics
from calibrant.evaluation.fitting.templates import Labelled
from calibrant.evaluation.monitoring.evidence import log_mean_wealth, over_starts
from calibrant.predictions import Predictions
from papers import studies
from papers.analysis import verdicts
from papers.calibrators import run as calibrators
from papers.calibrators.run import Division
from papers.coverage import measure as coverage
from papers.coverage.populations import coarser, event_errors, normal, normal_truth, smoothed, softmax
from papers.coverage.streams import FULL_STREAMS, Change, evidence_at_looks, samples_of_fixed_test


def over_confident(num_samples: int = 300) -> Predictions:
    """Three classes, with logits three times too large."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(num_samples, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return Predictions(logits=3 * logits, labels=labels)


def test_each_sample_is_judged_by_a_fit_without_it() -> None:
    """A sample whose label is changed is judged the same; the samples of the other half are not."""
    given = over_confident()
    division = Division(given, 0)
    probs = division.judged("temperature").probs
    wrong = division.data.labels.clone()
    first = int(torch.nonzero(division.halves == 0)[0])
    wrong[first] = (wrong[first] + 1) % 3
    other = Division(Predictions(logits=given.values, labels=wrong), 0)
    vars(other)["halves"] = division.halves
    changed = other.judged("temperature").probs
    inside = division.halves == 0
    assert torch.equal(changed[inside], probs[inside])
    assert bool((changed[~inside] != probs[~inside]).any())


@pytest.mark.parametrize("kind", ["multiclass", "binary", "multilabel"])
def test_resampled_measures_are_those_of_the_metrics(kind) -> None:
    """Each resample's NLL, Brier score and ECE are what the metrics say of these samples."""
    rng = np.random.default_rng(1)
    shape = {"multiclass": (50, 3), "binary": (50,), "multilabel": (50, 2)}[kind]
    scores = torch.from_numpy(rng.normal(size=shape))
    probs = scores.softmax(1) if kind == "multiclass" else scores.sigmoid()
    labels = torch.from_numpy(rng.integers(2, size=(50,) if kind == "multiclass" else shape))
    drawn = calibrators.draws(50, 3, seed=2)
    found = calibrators.measures_of_draws(drawn, probs, Labelled(scores, labels, None))
    for place, counts in enumerate(drawn):
        rows = torch.from_numpy(np.repeat(np.arange(50), counts))
        wanted = calibrators.measured(probs[rows], Labelled(scores[rows], labels[rows], None))
        for name, values in found.items():
            assert values[place] == pytest.approx(wanted[name], rel=1e-12)


def test_calibrators_on_a_folder(tmp_path, monkeypatch) -> None:
    """A file with zeros and one of confidences: what is done is not done again, and frames are made of it."""
    names = ["temperature", "focal-temperature", "vector", 'focal-temperature(objective="ece")']
    monkeypatch.setattr(calibrators, "calibrators_for", lambda _kind, _classes: names)
    small = {"DRAWS": 40, "RESAMPLES": 40, "REFITS": 5, "DIVISIONS": 2, "RIVALS": ("vector",)}
    for name, value in small.items():
        monkeypatch.setattr(calibrators, name, value)
    given, labels = over_confident(), Labelled.of(over_confident()).labels
    probs = given.probs.numpy().copy()
    for row in range(2):
        probs[row] = 0.5
        probs[row, labels[row]] = 0
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data/zeros.npz", probs=probs, labels=labels.numpy())
    confidence, correct = given.probs.amax(1).numpy(), (given.probs.argmax(1) == labels).numpy()
    np.savez(tmp_path / "data/top.npz", confidence=confidence, correct=correct)
    np.savez(tmp_path / "data/broken.npz", probs=np.full((9, 3), 0.5), labels=np.zeros(9, int))
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path / "data"))
    results = calibrators.measure(tmp_path)
    assert calibrators.measure(tmp_path) == results
    assert list(results["left_out"]) == ["broken.npz"]
    one, other = results["judged"]
    assert (one["name"], one["direction"], other["metrics"]["nll"]["value"]) == (
        "top.npz",
        "over-confident",
        None,
    )
    ece = metrics.expected_calibration_error(torch.from_numpy(probs), labels)
    assert other["metrics"]["ece"]["value"] == pytest.approx(float(ece))
    closer = results["exponent"]["zeros.npz"]
    assert closer["zeros"] == 2
    gains = studies.study("calibrators").frames(results)["gains"]
    focal = gains.query("calibrator == 'focal-temperature' and against == 'temperature' and measure == 'nll'")
    last = closer["without_zeros"]
    assert focal[focal.counts].value.item() == last["over"]["temperature"]["nll"]["gain"]
    assert focal[focal.counts].standard_error.item() >= last["refit_errors"]["nll"]


def test_coverage_of_a_small_setting(tmp_path, monkeypatch) -> None:
    """A few sets in few cells: not done again, shares of them, and everything that page and package need."""
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    results = coverage.measure(tmp_path, size="small", seeds="2")
    records = (tmp_path / "coverage.jsonl").read_text(encoding="utf-8")
    assert coverage.measure(tmp_path, size="small", seeds="2") == results
    assert (tmp_path / "coverage.jsonl").read_text(encoding="utf-8") == records
    assert [(each["classes"], each["scale"], each["sets"]) for each in results["cells"]] == [
        (2, 1.0, 8),
        (2, 1.6, 4),
        (3, 1.0, 8),
        (3, 1.6, 4),
    ]
    for cell in results["cells"]:
        for key, of in cell["errors"].items():
            assert of["covered"] + of["above"] + of["below"] == pytest.approx(1)
            if cell["scale"] == 1:
                assert (of["truth"], of["above"]) == (0, of["real"]), key
    assert {(each["model"], each["errors"]["ece"]["sets"]) for each in results["changes"]} == {
        (None, 2),
        ("another", 2),
    }
    study = studies.study("coverage")
    results = json.loads(studies.compact(results))
    frames = study.frames(results)
    assert study.tables(frames)["short"].index.tolist() == list(study.TITLES.values())
    assert set(verdicts("coverage", frames).verdict) <= {"holds", "undecided", "does not hold"}
    (told,) = study.packaged(results).values()
    assert told["values"]["ece"]["sets"] == 24


def test_intervals_are_counted_above_and_below_the_truth() -> None:
    """Of the largest gap the truth is another for each set, also for the bootstrap on the first one."""
    ends = {"value": [0.3, 0.2, 0.1], "low": [0.2, 0.0, 0.0], "high": [0.4, 0.3, 0.05]}
    sets = pd.DataFrame({**ends, "truth": None, "set": range(3)})
    found = coverage.counted(sets, 0.1)
    assert [found[name] for name in ("covered", "above", "below")] == pytest.approx([1 / 3] * 3)
    of_gap = sets.assign(truth=[0.3, 0.5, 0.04])
    own = coverage.counted(of_gap, 0.9)
    assert [own[name] for name in ("covered", "above", "below")] == pytest.approx([2 / 3, 0, 1 / 3])
    bootstrap = pd.DataFrame({"value": [0.3], "low": [0.25], "high": [0.35], "truth": [0.3]})
    assert coverage.centred(of_gap, bootstrap, 0.9) == {
        "sets": 1,
        "covered": 1.0,
        "width": pytest.approx(0.1),
        "inverted_width": pytest.approx(0.2),
    }


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
def test_true_errors_are_the_metrics_where_the_truth_is_certain(ties) -> None:
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
    for key, value in public.items():
        assert found[key] == pytest.approx(float(value), abs=1e-12), key
    assert found["smooth_ece"] == pytest.approx(float(metrics.smooth_ece(*given)), abs=1e-3)


def test_populations_have_their_errors() -> None:
    logits, labels = normal((60_000, 4), 1.5, np.random.default_rng(1))
    probs = torch.from_numpy(1.6 * logits).softmax(dim=1)
    drawn = float(metrics.classwise_calibration_error(probs, torch.from_numpy(labels), num_bins=15))
    true, gaps = normal_truth(4, 1.6, 1.5, 15, 60_000)
    assert true["classwise_ece"] == pytest.approx(drawn, abs=0.003)
    assert np.abs(gaps).max() == pytest.approx(true["mce"], abs=1e-12)
    truth, known = (
        softmax(each, axis=1)
        for each in (logits[:20_000], coarser(logits[:20_000], np.random.default_rng(4)))
    )
    rows, top = np.arange(len(truth)), known.argmax(axis=1)
    assert event_errors(known[rows, top], truth[rows, top], 15)["ece"] < 0.01
    assert truth[rows, top].mean() < truth.max(axis=1).mean() - 0.02


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


def test_evidence_at_the_end_of_a_window_is_the_monitors() -> None:
    """At the last look of each window both are the same; between, only begun gamblers have bet."""
    bets = np.random.default_rng(0).normal(0, 0.1, (30, 4))
    of_windows = over_starts(log_mean_wealth(bets.reshape(6, 5, 4).sum(1)))
    np.testing.assert_allclose(evidence_at_looks(bets, 5)[4::5], of_windows, atol=1e-12)


def test_the_told_test_needs_so_many() -> None:
    rng = np.random.default_rng(0)
    size = round(samples_of_fixed_test(FULL_STREAMS, Change(slope=0.8)))
    log_odds = FULL_STREAMS.spread * rng.normal(size=(1000, size))
    probs, truth = (1 / (1 + np.exp(-scale * log_odds)) for scale in (1.0, 0.8))
    score = (log_odds * ((rng.random(log_odds.shape) < truth) - probs)).sum(1)
    spread = np.sqrt((log_odds**2 * probs * (1 - probs)).sum(1))
    assert (np.abs(score) > 1.96 * spread).mean() == pytest.approx(0.5, abs=0.05)
