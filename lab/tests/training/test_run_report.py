"""What a run's report shows beside the evaluation, and what comparing runs adds."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

import calibrant
from calibrant._math.errors import InputError
from calibrant_lab.reports.run_panel import chosen, panel
from calibrant_lab.training import load_run, train
from calibrant_lab.training.data import read_data
from calibrant_lab.training.run_report import comparison_sections


@pytest.fixture
def foreign(tmp_path, rng) -> str:
    """A file of noise as large as a digit, which no network of digits can know."""
    path = tmp_path / "noise.npz"
    images = rng.integers(0, 255, (60, 8, 8), dtype=np.uint8)
    np.savez(path, x_train=images, y_train=np.arange(60) % 10)
    return str(path)


def test_the_report_says_how_it_was_trained_and_shows_images(recipe, tmp_path) -> None:
    """The facts of the run, and eight images with the answers that predictions.npz holds."""
    run = train(recipe, tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "How it was trained" in page
    assert "averaged over batches of 48" in page
    assert page.count('<img class="sample"') == 8
    data, predictions = read_data(recipe.data), run.predictions
    section = panel({"a": predictions}, data.test, data.class_names)
    assert section is not None
    assert section.table is not None
    probs = predictions.test.probs
    top, labels = probs.max(dim=1), data.test.labels
    said = {
        (data.class_names[label], f"{data.class_names[place]} {100 * sure:.1f} %")
        for label, place, sure in zip(labels.tolist(), top.indices.tolist(), top.values.tolist(), strict=True)
    }
    for _, actual, answer in section.table.rows:
        mark, name, before = re.search(r">(.) (\d)</span> ([\d.]+ %)", str(answer)).groups()
        assert (actual, f"{name} {before}") in said
        assert (mark == "✓") == (actual == name)
    assert [("✓" in row[2]) for row in section.table.rows] == [True] * 4 + [False] * 4


def test_images_are_drawn_from_what_all_get_right_and_most_get_wrong() -> None:
    """With two networks: only rows that both get right, then those that both miss before single misses."""
    rng = torch.Generator().manual_seed(1)
    right = torch.rand(2, 200, generator=rng) > 0.2
    rows = chosen(right, seed=0)
    assert right[:, rows[:4]].all()
    assert not right[:, rows[4:]].any()  # with 200 samples, about eight are missed by both
    assert rows != chosen(right, seed=1)
    assert chosen(torch.ones(2, 3, dtype=torch.bool), seed=0) != []
    assert len(chosen(torch.zeros(1, 3, dtype=torch.bool), seed=0)) == 3


def test_features_have_no_panel(recipe, tmp_path, rng) -> None:
    """Where the samples are no images the report goes without."""
    path = tmp_path / "features.npz"
    np.savez(path, x_train=rng.normal(size=(300, 4)), y_train=np.arange(300) % 3)
    settings = [f"data.name={path}", "data.augment=[]", "data.calibration=50", "data.train=150"]
    train(recipe.with_settings(settings), tmp_path / "run")
    assert "The same images" not in (tmp_path / "run" / "report.html").read_text()


def test_foreign_samples_are_scored_as_scikit_learn_scores_them(recipe, tmp_path, foreign) -> None:
    """The logits are kept, and AUROC, AUPR and FPR of both scores are those of independent code."""
    run = train(recipe.with_settings([f"evaluation.out_of_distribution={foreign}"]), tmp_path / "run")
    kept = calibrant.load_predictions(tmp_path / "run" / "out_of_distribution.npz")
    assert kept.num_samples == 60
    found = json.loads((tmp_path / "run" / "out_of_distribution.json").read_text())
    test = run.predictions.test
    outside = np.append(np.zeros(test.num_samples), np.ones(60))
    probs = torch.cat([test.scores, kept.scores]).double().softmax(dim=1)
    entropy = torch.distributions.Categorical(probs).entropy().numpy()
    for name, scores in {"entropy": entropy, "max_probability": -probs.max(dim=1).values.numpy()}.items():
        assert found["uncalibrated"][name]["auroc"] == pytest.approx(roc_auc_score(outside, scores), rel=1e-9)
        assert found["uncalibrated"][name]["aupr"] == pytest.approx(
            average_precision_score(outside, scores), rel=1e-9
        )
        threshold = np.sort(scores[outside == 1])[::-1][57 - 1]  # 95 % of 60
        share = (scores[outside == 0] >= threshold).mean()
        assert found["uncalibrated"][name]["fpr_at_95_tpr"] == pytest.approx(share, abs=1e-12)
    assert found["temperature"].keys() == found["uncalibrated"].keys()
    assert "Out-of-distribution samples" in (tmp_path / "run" / "report.html").read_text()
    assert run.evaluation is not None
    assert run.evaluation.out_of_distribution is not None


def test_foreign_samples_of_another_shape_are_refused(recipe, tmp_path, rng) -> None:
    """Before anything is written."""
    path = tmp_path / "wide.npz"
    np.savez(path, x_train=rng.integers(0, 255, (20, 9, 9), dtype=np.uint8), y_train=np.arange(20) % 2)
    mine = recipe.with_settings([f"evaluation.out_of_distribution={path}"])
    with pytest.raises(InputError, match=r"must name samples of shape \(1, 8, 8\)"):
        train(mine, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("short_reports")
def test_compared_runs_show_what_differs_and_the_same_images(recipe, tmp_path) -> None:
    """Differing settings and eight images under both; other data have no common images."""
    for name, settings in {
        "a": [],
        "b": ["loss=focal(gamma=3)"],
        "c": ["data.seed=3", "data.augment=[]"],
    }.items():
        train(recipe.with_settings([*settings, "training.epochs=1"]), tmp_path / name)
    runs = {name: load_run(tmp_path / name) for name in ("a", "b", "c")}
    differences, images = comparison_sections({name: runs[name] for name in ("a", "b")})
    assert differences.table.columns == ("Run", "loss")
    assert differences.table.rows == (("a", "cross-entropy"), ("b", "focal(gamma=3)"))
    assert images.table.columns == ("Image", "Actual", "a", "b")
    assert 4 < len(images.table.rows) <= 8
    (only,) = comparison_sections({name: runs[name] for name in ("a", "c")})
    assert only.table.columns == ("Run", "data.augment", "data.seed")
