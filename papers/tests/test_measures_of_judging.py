"""What the studies of calibrators and of coverage measure, on the smallest settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from calibrant import metrics
from calibrant.evaluation.fitting.templates import Labelled
from calibrant.predictions import Predictions
from papers import studies
from papers.calibrators import measure as calibrators
from papers.calibrators.measure import Division
from papers.calibrators.resamples import Resamples


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
    wrong = given.labels.clone()
    first = int(torch.nonzero(division.halves == 0)[0])
    wrong[first] = (wrong[first] + 1) % 3
    other = Division(Predictions(logits=given.values, labels=wrong), 0)
    vars(other)["halves"] = division.halves
    changed = other.judged("temperature").probs
    inside = division.halves == 0
    assert torch.equal(changed[inside], probs[inside])
    assert bool((changed[~inside] != probs[~inside]).any())


@pytest.mark.parametrize("kind", ["multiclass", "binary", "multilabel"])
def test_resampled_measures_are_those_of_the_metrics(kind: str) -> None:
    """Each resample's NLL, Brier score and ECE are what the metrics say of these samples."""
    rng = np.random.default_rng(1)
    shape = {"multiclass": (50, 3), "binary": (50,), "multilabel": (50, 2)}[kind]
    scores = torch.from_numpy(rng.normal(size=shape))
    probs = scores.softmax(1) if kind == "multiclass" else scores.sigmoid()
    labels = torch.from_numpy(rng.integers(2, size=(50,) if kind == "multiclass" else shape))
    resamples = Resamples(50, 3, seed=2)
    found = resamples.measures(probs, Labelled(scores, labels, None))
    for place, counts in enumerate(resamples.counts):
        rows = torch.from_numpy(np.repeat(np.arange(50), counts))
        wanted = calibrators.measured(probs[rows], Labelled(scores[rows], labels[rows], None))
        for name, values in found.items():
            assert values is not None
            assert values[place] == pytest.approx(wanted[name], rel=1e-12)


def test_calibrators_on_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with zeros and one of confidences: what is done is not done again, and frames are made of it."""
    names = ["temperature", "focal-temperature", "vector", 'focal-temperature(objective="ece")']
    monkeypatch.setattr(calibrators, "calibrators_for", lambda _kind, _classes: names)
    for name, value in {"DRAWS": 40, "RESAMPLES": 40, "REFITS": 5}.items():
        monkeypatch.setattr(calibrators, name, value)
    given = over_confident()
    probs = given.probs.numpy().copy()
    for row in range(2):
        probs[row] = 0.5
        probs[row, given.labels[row]] = 0
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data/zeros.npz", probs=probs, labels=given.labels.numpy())
    top = {"confidence": given.probs.amax(1).numpy(), "correct": given.probs.argmax(1) == given.labels}
    np.savez(tmp_path / "data/top.npz", **top)
    np.savez(tmp_path / "data/broken.npz", probs=np.full((9, 3), 0.5), labels=np.zeros(9, int))
    results = calibrators.measure(tmp_path, str(tmp_path / "data"))
    assert calibrators.measure(tmp_path, str(tmp_path / "data")) == results
    assert list(results["left_out"]) == ["broken.npz"]
    one, other = results["judged"]
    assert (one["name"], one["direction"], other["metrics"]["nll"]["value"]) == (
        "top.npz",
        "over-confident",
        None,
    )
    probs, labels = torch.from_numpy(probs), given.labels
    assert other["metrics"]["ece"]["value"] == pytest.approx(
        float(metrics.expected_calibration_error(probs, labels))
    )
    closer = results["exponent"]["zeros.npz"]
    assert closer["rows"]["zeros"] == 2
    before = [each["over"]["temperature"]["nll"]["before"] for each in closer["floors"]]
    assert before[3] < before[0] < before[1] < before[2]
    gains = studies.study("calibrators").frames(results)["gains"]
    focal = gains.query("calibrator == 'focal-temperature' and against == 'temperature' and measure == 'nll'")
    last = closer["floors"][-1]
    assert focal[focal.counts].value.item() == last["over"]["temperature"]["nll"]["gain"]
    assert focal[focal.counts].standard_error.item() >= last["refit_errors"]["nll"]
