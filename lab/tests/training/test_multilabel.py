"""Training on samples that may have several labels each."""

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.nn.functional import binary_cross_entropy_with_logits

from calibrant import losses
from calibrant_lab.training import Recipe, train
from calibrant_lab.training.data import read_data
from calibrant_lab.training.epoch_metrics import multilabel_epoch_metrics, right_answers
from calibrant_lab.training.loss import build_loss
from refusals import refused

pytestmark = pytest.mark.usefixtures("short_reports")


@pytest.fixture
def recipe(quick, tmp_path, rng) -> Recipe:
    """Features of which the sign of the first three decides three labels; a fourth label is chance."""
    features = rng.normal(size=(300, 5)).astype(np.float32)
    labels = (features[:, :4] > [0.0, 0.5, 1.0, 9.0]).astype(np.uint8)
    labels[:, 3] = rng.random(300) < 0.3
    path = tmp_path / "several.npz"
    np.savez(path, x_train=features, y_train=labels, class_names=["a", "b", "c", "d"])
    data = [f"data.name={path}", "data.calibration=80", "data.test=80", "evaluation.calibrators=['platt']"]
    learn = ["optimiser.name=adam", "optimiser.learning_rate=0.05", "training.epochs=3"]
    small = ["model=mlp(widths=(8,))", "loss=multilabel-focal(gamma=0)", "training.batch_size=32"]
    return quick.with_settings([*small, *data, *learn])


def test_a_run_with_several_labels_leaves_everything_behind(recipe, tmp_path) -> None:
    run = train(recipe, tmp_path / "run")
    assert run.predictions.kind == "multilabel"
    assert run.predictions.class_names == ("a", "b", "c", "d")
    assert run.evaluation.kind == "multilabel"
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 3
    assert rows[2]["calibration_nll"] < rows[0]["calibration_nll"]
    assert rows[2]["train_accuracy"] > 0.75
    assert len(rows[2]["calibration_ece_by_label"]) == 4
    assert run.kept_row["calibration_temperature"] is None
    test = run.predictions.test
    areas = [roc_auc_score(test.labels[:, label], test.scores[:, label]) for label in range(4)]
    assert min(areas[:3]) > 0.9 > max(areas[3:])


def test_metrics_of_an_epoch_are_means_over_the_labels(rng) -> None:
    """NLL and AUROC agree with torch and scikit-learn; a label of which one answer occurs has no AUROC."""
    logits = torch.from_numpy(rng.normal(size=(60, 3)))
    labels = torch.from_numpy(rng.integers(0, 2, (60, 3)))
    labels[:, 2] = 0
    found = multilabel_epoch_metrics(logits, labels, num_bins=1)
    nll = binary_cross_entropy_with_logits(logits, labels.double())
    areas = [roc_auc_score(labels[:, label], logits[:, label]) for label in range(2)]
    assert found["nll"] == pytest.approx(float(nll), rel=1e-12)
    assert found["auroc"] == pytest.approx(sum(areas) / 2, rel=1e-12)
    gaps = (logits.sigmoid().mean(dim=0) - labels.double().mean(dim=0)).abs()
    assert found["ece_by_label"] == pytest.approx(gaps.tolist(), rel=1e-12)
    assert found["ece"] == pytest.approx(float(gaps.mean()), rel=1e-12)
    assert found["accuracy"] == pytest.approx(float(((logits > 0) == (labels == 1)).double().mean()))


def test_right_answers_are_shares_where_there_are_several() -> None:
    logits = torch.tensor([[1.0, -1.0, 2.0, -2.0]])
    assert right_answers(logits, torch.tensor([[1, 0, 0, 1]])).tolist() == [0.5]
    assert right_answers(logits, torch.tensor([2])).tolist() == [1.0]


def test_balanced_labels_weigh_both_answers_alike(recipe) -> None:
    data = read_data(recipe.data)
    loss = build_loss(recipe.with_settings(["training.class_weights=balanced"]), data)
    labels, logits = data.train.labels, torch.linspace(-2, 2, data.train.labels.numel()).reshape(-1, 4)
    positive = labels.double().mean(dim=0)
    ratio = ((1 - positive) / positive).float()
    each = binary_cross_entropy_with_logits(logits, labels.float(), pos_weight=ratio, reduction="none")
    expected = (each * (0.5 / (1 - positive)).float()).mean()
    assert float(loss(logits, labels)) == pytest.approx(float(expected), rel=1e-6)
    constant = losses.build("multilabel-focal(gamma=0)")(torch.zeros_like(logits), labels)
    assert float(loss(torch.zeros_like(logits), labels)) == pytest.approx(float(constant), rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["loss=cross-entropy"], r"binary cross-entropy write multilabel-focal\(gamma=0\)"),
        (["sam.rho=0.1"], "sam.rho is for samples with one label each"),
        (["record.dynamics=true"], "record.dynamics is for samples with one label each"),
        (["shift.corruption=fog"], "shift.corruption is for samples with one label each"),
        (["data.name=digits"], "`loss` must be one of classes: each sample of digits has one label"),
    ],
)
def test_settings_that_do_not_go_with_the_labels_are_refused(recipe, tmp_path, settings, message) -> None:
    refused(message, train, recipe.with_settings(settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_labels_of_files_are_zero_and_one(recipe, tmp_path) -> None:
    for labels, message in (
        (np.eye(3, dtype=int)[np.arange(30) % 3], r"store labels.argmax\(axis=1\)"),
        (np.full((30, 3), 2), "must hold 0 and 1"),
    ):
        np.savez(tmp_path / "bad.npz", x_train=np.zeros((30, 5)), y_train=labels)
        refused(message, read_data, recipe.with_settings([f"data.name={tmp_path / 'bad.npz'}"]).data)
    np.savez(tmp_path / "bad.npz", x_train=np.zeros((30, 5)), y_train=np.tile([0, 1], (30, 2)))
    few = ["data.calibration=5", "data.test=5", "training.class_weights=balanced"]
    one_sided = recipe.with_settings([f"data.name={tmp_path / 'bad.npz'}", *few])
    refused("label 0 is the same in all training samples", build_loss, one_sided, read_data(one_sided.data))
