"""What is recorded of a network in training, what a run's report shows of it, and what comparing adds."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn

import calibrant
from calibrant_lab.data.table import to_unit
from calibrant_lab.reports.dynamics import compared_dynamics, dynamics_sections
from calibrant_lab.reports.run_panel import chosen, panel
from calibrant_lab.training import Run, load_run, train
from calibrant_lab.training.data import preparation, read_data
from calibrant_lab.training.run_report import comparison_sections
from refusals import refused


@pytest.fixture(scope="module")
def recorded(recipe):
    """A recipe that records dynamics every second epoch, and files after the first and the last."""
    return recipe.with_settings(
        ["record.dynamics=true", "record.every=2", "record.epochs=[1, 4]", "loss=focal(gamma=2)"]
    )


@pytest.fixture(scope="module")
def watched(recorded, tmp_path_factory):
    """A run of it with its whole report, to be read only."""
    return train(recorded, tmp_path_factory.mktemp("watched") / "run")


def judged(run: Run, split: str, rows: torch.Tensor | slice = slice(None)) -> tuple[torch.Tensor, ...]:
    """Logits of some samples by the saved network, and their labels."""
    data = read_data(run.recipe.data)
    part = data.parts[split]
    with torch.no_grad():
        logits = run.model()(preparation(run.recipe.data, data)(to_unit(part.inputs[rows])))
    return logits.double(), part.labels[rows]


def test_recorded_numbers_are_those_of_the_saved_network(watched) -> None:
    run = watched
    assert ["dynamics" in row for row in run.rows] == [True, True, False, True]
    found = run.rows[-1]["dynamics"]
    for name in ("train", "test"):
        logits, labels = judged(run, name)
        probs, right = logits.softmax(1), logits.argmax(1) == labels
        nll = nn.functional.cross_entropy(logits, labels, reduction="none")
        expected = {
            "error": 1 - right.double().mean(),
            "nll": nll.mean(),
            "nll_correct": nll[right].mean(),
            "nll_incorrect": nll[~right].mean(),
            "entropy": calibrant.metrics.predictive_entropy(probs),
            "entropy_incorrect": torch.distributions.Categorical(probs[~right]).entropy().mean(),
            "p_true_correct": probs.max(1).values[right].mean(),
            "p_true_incorrect": (-nll[~right]).exp().mean(),
            "ece": calibrant.metrics.expected_calibration_error(probs, labels),
        }
        for key, value in expected.items():
            assert found[name][key] == pytest.approx(float(value), rel=1e-5), key  # logits are float32
    norm = float(run.model().layers[-1].weight.detach().norm())
    assert found["last_layer_norm"] == pytest.approx(norm, rel=1e-5)


def test_fewer_training_samples_can_stand_for_all(recorded, watched, tmp_path) -> None:
    """Evenly spaced ones; the training itself, and what is recorded of the test split, stay the same."""
    run = train(recorded.with_settings(["record.samples=20"]), tmp_path / "run", report=False)
    found = run.rows[-1]["dynamics"]
    logits, labels = judged(run, "train", torch.linspace(0, 199, 20).long())
    wrong = (logits.argmax(1) != labels).double().mean()
    assert found["train"]["error"] == pytest.approx(float(wrong))
    assert found["test"] == watched.rows[-1]["dynamics"]["test"]
    snapshot = run.snapshots[4]
    assert (len(snapshot["gradient_norms"]), snapshot["train_counts"].sum()) == (20, 20)


@pytest.mark.usefixtures("short_reports")
def test_gradient_norms_are_those_of_one_backward_pass_per_sample(recorded, tmp_path) -> None:
    """The product of two norms equals the norm of the gradient of each sample's own loss (float32)."""
    run = train(recorded.with_settings(["data.train=30"]), tmp_path / "run")
    norms = run.snapshots[4]["gradient_norms"]
    data, model = read_data(run.recipe.data), run.model()
    inputs = preparation(run.recipe.data, data)(to_unit(data.train.inputs))
    loss, layer = calibrant.losses.build("focal(gamma=2)"), model.layers[-1]
    for row in range(30):
        value = loss(model(inputs[row : row + 1]), data.train.labels[row : row + 1])
        gradients = torch.autograd.grad(value, [layer.weight, layer.bias])
        expected = torch.cat([each.flatten() for each in gradients]).norm()
        assert norms[row] == pytest.approx(float(expected), rel=1e-4)


def test_snapshots_count_every_sample(watched) -> None:
    """At the chosen epochs each split's bins hold all its samples; the page draws them."""
    run = watched
    assert list(run.snapshots) == [1, 4]
    for snapshot in run.snapshots.values():
        assert snapshot["train_counts"].sum() == 200
        assert len(snapshot["test_accuracy"]) == 25
        assert len(snapshot["gradient_norms"]) == 200
    sections = dynamics_sections(run.rows, run.snapshots)
    assert [len(section.pictures) for section in sections] == [4, 6, 4, 1]
    page = (run.folder.path / "report.html").read_text()
    for section in sections:
        assert f"<h2>{section.title}</h2>" in page
    assert "test, epoch 4" in page
    assert "http" not in page.replace("http-equiv", "")


@pytest.mark.usefixtures("short_reports")
def test_recording_changes_nothing(watched, recipe, tmp_path) -> None:
    alone = train(recipe.with_settings(["loss=focal(gamma=2)"]), tmp_path / "alone")
    assert torch.equal(watched.predictions.scores, alone.predictions.scores)


@pytest.fixture
def unwritten(monkeypatch):
    """Figures are composed and not written as SVG, which takes most of the time; returns their labels."""
    found = []

    def written(figure, *, label, name):
        found.extend(line.get_label() for ax in figure.axes for line in ax.get_lines())
        return ""

    monkeypatch.setattr("calibrant_lab.reports.dynamics.to_svg", written)
    return found


def test_what_is_measured_anyway_is_drawn(watched, unwritten) -> None:
    """Rows have the dynamics of the calibration split, and a report draws them where there are no others."""
    alone = [{key: value for key, value in row.items() if key != "dynamics"} for row in watched.rows]
    logits, labels = watched.predictions.calibration.scores.double(), watched.predictions.calibration.labels
    wrong = logits.argmax(1) != labels
    nll = nn.functional.cross_entropy(logits[wrong], labels[wrong])
    assert alone[-1]["calibration_nll_incorrect"] == pytest.approx(float(nll), rel=1e-5)
    assert [len(section.pictures) for section in dynamics_sections(alone, {})] == [4, 3]
    assert "ECE, calibration samples" in unwritten
    several = [{key: each for key, each in row.items() if "correct" not in key} for row in alone]
    assert [len(section.pictures) for section in dynamics_sections(several, {})] == [4]


@pytest.mark.usefixtures("short_reports")
def test_one_epoch_draws_nothing(recipe, tmp_path) -> None:
    """A curve needs two epochs; a report of one has no such sections, and a comparison no such pictures."""
    run = train(recipe.with_settings(["training.epochs=1"]), tmp_path / "run")
    assert dynamics_sections(run.rows, {}) == ()
    assert compared_dynamics({"a": run.rows, "b": run.rows}) is None
    assert load_run(tmp_path / "run").snapshots == {}
    assert np.isfinite(run.rows[0]["train_loss"])


@pytest.mark.parametrize("split", ["test", "calibration"])
def test_several_runs_share_their_pictures(watched, unwritten, split) -> None:
    """Figure 3's eight quantities of one split that all runs recorded, a line for each run."""
    without = [{key: value for key, value in row.items() if key != "dynamics"} for row in watched.rows]
    third = watched.rows if split == "test" else without
    section = compared_dynamics({"a": watched.rows, "b": watched.rows, "c": third})
    assert len(section.pictures) == 8
    assert [name for name, _ in section.key] == ["a", "b", "c"]
    assert f"of the {split} samples" in section.text[0]
    assert len(unwritten) == 8 * 3
    old = [{"epoch": row["epoch"], "calibration_nll": row["calibration_nll"]} for row in watched.rows]
    section = compared_dynamics({"a": without, "b": watched.rows, "old": old})
    assert "Not recorded: old." in section.text[0]


def noise(folder: Path, side: int) -> str:
    """A file of noise, which no network of digits can know."""
    images = np.random.default_rng(0).integers(0, 255, (60, side, side), dtype=np.uint8)
    np.savez(folder / "noise.npz", x_train=images, y_train=np.arange(60) % 10)
    return f"foreign.name={folder / 'noise.npz'}"


@pytest.mark.usefixtures("short_trainings")
def test_the_report_says_how_it_was_trained_and_shows_images(recipe, tmp_path) -> None:
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


@pytest.mark.usefixtures("short_trainings")
def test_features_have_no_panel(recipe, tmp_path, rng) -> None:
    path = tmp_path / "features.npz"
    np.savez(path, x_train=rng.normal(size=(300, 4)), y_train=np.arange(300) % 3)
    settings = [f"data.name={path}", "data.augment=[]", "data.calibration=50", "data.train=150"]
    train(recipe.with_settings(settings), tmp_path / "run")
    assert "The same images" not in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.usefixtures("short_trainings")
def test_foreign_samples_are_scored_as_scikit_learn_scores_them(recipe, tmp_path) -> None:
    """The logits are kept, and AUROC, AUPR and FPR of both scores are those of independent code."""
    run = train(recipe.with_settings([noise(tmp_path, 8)]), tmp_path / "run")
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


def test_foreign_samples_of_another_shape_are_refused(recipe, tmp_path) -> None:
    mine = recipe.with_settings([noise(tmp_path, 9)])
    refused(r"must name samples of shape \(1, 8, 8\)", train, mine, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("short_reports")
def test_compared_runs_show_what_differs_and_the_same_images(recipe, tmp_path) -> None:
    changes = {"a": [], "b": ["loss=focal(gamma=3)"], "c": ["data.seed=3", "data.augment=[]"]}
    runs = {
        name: train(recipe.with_settings([*settings, "training.epochs=1"]), tmp_path / name)
        for name, settings in changes.items()
    }
    differences, images = comparison_sections({name: runs[name] for name in ("a", "b")})
    assert differences.table.columns == ("Run", "loss")
    assert differences.table.rows == (("a", "cross-entropy"), ("b", "focal(gamma=3)"))
    assert images.table.columns == ("Image", "Actual", "a", "b")
    assert 4 < len(images.table.rows) <= 8
    (only,) = comparison_sections({name: runs[name] for name in ("a", "c")})
    assert only.table.columns == ("Run", "data.augment", "data.seed")
