"""Recipes that would only fail in the end, or in a user's own network, are refused at once."""

import os

import numpy as np
import pytest
from torch import nn

from calibrant_lab.training import Recipe, train
from calibrant_lab.training.run_report import run_facts
from command_line import call
from refusals import refused

OWN = """
from torch import nn


def network(num_classes, inputs=16, more=0):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, num_classes + more))


def words(num_classes):
    return lambda images: "logits"


def fails(num_classes):
    return 1 / 0


class Plain(nn.Module):
    def forward(self, logits, labels):
        return nn.functional.cross_entropy(logits, labels)


class Late(Plain):
    def step(self, epoch):
        self.nothing[epoch]


class Wrong(Plain):
    def forward(self, logits, labels):
        return nn.functional.mse_loss(logits, labels[:, None].repeat(1, 7).float())


class Rows(nn.CrossEntropyLoss):
    def __init__(self):
        super().__init__(reduction="none")


class Constant(Plain):
    def forward(self, logits, labels):
        return super().forward(logits, labels).detach()


class Learned(Plain):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(__import__("torch").ones(()))
"""


@pytest.fixture
def recipe(quick, tmp_path, monkeypatch, rng) -> Recipe:
    """Twelve images of 4 × 4 pixels in two classes, and a module of networks beside them."""
    images, labels = rng.integers(0, 256, (12, 4, 4), dtype=np.uint8), np.arange(12) % 2
    np.savez(tmp_path / "images.npz", x_train=images, y_train=labels)
    (tmp_path / "mine.py").write_text(OWN)
    (tmp_path / "no_python.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return quick.with_settings(["data.name=images.npz", "data.test=4", "data.calibration=4"])


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model=mine:network(inputs=9)", r"shape \(1, 4, 4\); it fails: RuntimeError: mat1"),
        ("model=mine:network(more=1)", r"shape \(N, 2\), .* for 2 samples it gives \(2, 3\)"),
        ("model=mine:fails", r"fails: ZeroDivisionError: division by zero \(mine.py, line 14\)"),
        ("model=no_python:f", r"cannot be imported: SyntaxError: .* \(no_python.py, line 1\)"),
        ("model=torch.nn:Nope", r"no function 'Nope'; choose .* or others"),
        ("loss=torch.nn:MSELoss", r"logits \(N, 2\) and labels \(N,\) to their loss; it fails: \w+: "),
        ("loss=mine:Wrong", r"it fails: .* \(mine.py, line 29\)"),
        ("loss=mine:Rows", r"one number .* it gives shape \(4,\)"),
        ("loss=mine:Constant", r"it gives shape \(\) without a gradient"),
        ("loss=mine:Learned", r"no optimiser trains \(scale\); put them into the network"),
        ("evaluation.calibrators=['temprature']", "did you mean 'temperature'"),
        ("shift={corruption='fog', severities=[]}", "`shift.severities` must name at least one of 1 to 5"),
    ],
)
def test_what_would_fail_later_fails_at_once(recipe, tmp_path, setting, words) -> None:
    refused(words, train, recipe.with_settings([setting]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_loss_without_settings_of_its_own_trains(recipe, tmp_path) -> None:
    """``nn.Module`` claims to take any setting, and is not given any."""
    run = train(recipe.with_settings(["loss=mine:Plain"]), tmp_path / "run", report=False)
    plain = train(recipe.with_settings(["loss=cross-entropy"]), tmp_path / "plain", report=False)
    assert run.rows[0]["train_loss"] == plain.rows[0]["train_loss"]


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_fails_within_the_training_names_the_users_line(recipe, tmp_path, devices) -> None:
    late = recipe.with_settings(["loss=mine:Late", f"hardware.devices={devices}"])
    (tmp_path / "late.toml").write_text(late.to_toml())
    done = call("train", "late.toml", "-q", folder=tmp_path)
    said = "AttributeError: 'Late' object has no attribute 'nothing' (mine.py, line 24)"
    assert (done.returncode, done.stderr) == (2, f"calibrant: your code fails: {said}.\n")


def test_a_file_is_no_directory(recipe, tmp_path) -> None:
    refused(r"images.npz is a file; choose another --out", train, recipe, tmp_path / "images.npz")


def test_processes_are_bounded_by_the_cores(recipe, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    words = r"must be at most 4, a process for each core; got 5"
    refused(words, train, recipe.with_settings(["hardware.devices=5"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_changes_after_the_last_epoch_are_told(recipe) -> None:
    """Where the learning rate would change only after the training has ended, the run says so."""
    from calibrant_lab.training.data import read_data

    steps = recipe.with_settings(["schedule.name=steps", "schedule.milestones=[1, 150]", "training.epochs=2"])
    dataset = read_data(steps.data)

    def said(recipe: Recipe) -> str:
        return run_facts(recipe, dataset, nn.Identity(), device="cpu", processes=1)["optimiser"]

    assert "(steps; of 2 epochs none is after 150, where it would change)" in said(steps)
    assert "(steps)" in said(steps.with_settings(["training.epochs=151"]))
