"""The table of all prediction files in a folder."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import InputError, evaluate, load_predictions, metrics
from papers.predictions import PAGE
from papers.predictions.measure import judge_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An over-confident table, the five largest probabilities of one, an event, and what is no prediction."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(800, 6))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    (folder / "full").mkdir()
    np.savez(folder / "full" / "sharp.npz", logits=3 * logits, labels=labels, split=np.arange(800) % 2)
    stated = np.exp(3 * logits) / np.exp(3 * logits).sum(axis=1, keepdims=True)
    order = np.argsort(-stated, axis=1)[:, :5]
    five = np.take_along_axis(stated, order, axis=1)
    (folder / "top").mkdir()
    np.savez(folder / "top" / "sharp_pets.npz", top5_probs=five, top5_classes=order)
    np.savez(folder / "top" / "labels.npz", pets=labels)
    np.savez(folder / "event.npz", probs=np.full(400, 0.25), labels=np.arange(400) % 4 == 0)
    np.savez(folder / "images.npz", images=np.zeros((3, 4)))
    np.savez(folder / "broken.npz", probs=np.full((9, 3), 0.5), labels=np.zeros(9, int))
    return folder


@pytest.fixture(scope="module")
def table(folder: Path) -> dict[str, Any]:
    """The folder, judged."""
    return judge_folder(folder, bootstrap=40, null_draws=40)


def test_every_file_of_predictions_has_a_row(table) -> None:
    """What holds none is passed over; what is refused is named with the reason."""
    assert [row["name"] for row in table["rows"]] == ["event.npz", "full/sharp.npz", "top/sharp_pets.npz"]
    assert list(table["left_out"]) == ["broken.npz"]
    assert "must have rows summing to 1" in table["left_out"]["broken.npz"]


def test_numbers_are_those_of_all_samples(table, folder) -> None:
    """Whatever the split; the errors of an event are the positive class's."""
    event, full, top = table["rows"]
    predictions = load_predictions(folder / "full" / "sharp.npz")
    probs, labels = predictions.probs, predictions.labels
    assert full["num_samples"] == 800
    for name, metric in {
        "ece": metrics.expected_calibration_error,
        "nll": metrics.negative_log_likelihood,
        "classwise_ece": metrics.classwise_calibration_error,
        "smce": metrics.smooth_calibration_error,
    }.items():
        assert full["metrics"][name]["value"] == pytest.approx(metric(probs, labels).item(), abs=1e-12)
    assert full["smooth_ece"] == pytest.approx(metrics.smooth_ece(probs, labels).item(), abs=1e-12)
    assert top["metrics"]["ece"]["value"] == pytest.approx(full["metrics"]["ece"]["value"], abs=1e-12)
    assert top["metrics"]["nll"]["value"] is None
    assert event["metrics"]["ece"]["value"] == pytest.approx(0, abs=1e-12)


def test_the_verdict_is_that_of_evaluate(table, folder, tmp_path) -> None:
    """For the same samples: a file of confidences is judged whole by both."""
    with np.load(folder / "top" / "sharp_pets.npz") as five, np.load(folder / "top" / "labels.npz") as labels:
        correct = five["top5_classes"][:, 0] == labels["pets"]
        np.savez(tmp_path / "p.npz", confidence=five["top5_probs"][:, 0], correct=correct)
    found = evaluate(load_predictions(tmp_path / "p.npz"), bootstrap=40, null_draws=40)
    assert table["rows"][2]["direction"] == found.verdict.direction == "over-confident"
    assert table["rows"][2]["failing"] == [part.name for part in found.arms[0].parts if not part.holds]
    assert table["rows"][2]["metrics"]["ece"] == asdict(found.arms[0].metrics["ece"])
    assert table["rows"][2]["p_value"] == found.arms[0].null[0].p_value


def test_markdown_and_json(table, tmp_path) -> None:
    """One line per file, as many cells as titles; JSON holds every number."""
    text = PAGE.text(table)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(table["rows"])
    assert len({line.count("|") for line in lines}) == 1
    assert "- `broken.npz`: " in text
    first, second = PAGE.write(table, tmp_path / "results")
    assert first.read_text(encoding="utf-8") == text
    assert json.loads(second.read_text(encoding="utf-8")) == table


def test_an_empty_folder_is_an_error(tmp_path) -> None:
    """There is nothing to judge."""
    with pytest.raises(InputError, match="holds no file of predictions"):
        judge_folder(tmp_path)
