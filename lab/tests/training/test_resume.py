"""Whatever ends a training, resuming gives the bits of one that was never disturbed."""

import errno
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from calibrant._math.files import write_text
from calibrant.predictions import Predictions
from calibrant_lab.training import load_run, run_report, train
from calibrant_lab.training.learner import Learner
from calibrant_lab.training.run import RunFolder
from refusals import refused

pytestmark = pytest.mark.usefixtures("short_reports")

STEPS = 5  # batches in an epoch: 200 samples in batches of 48


def test_the_same_recipe_gives_the_same_bits_and_another_seed_others(
    recipe, tmp_path, whole, same_numbers
) -> None:
    state = torch.random.get_rng_state()
    again = train(recipe, tmp_path / "again").folder.path
    assert torch.equal(state, torch.random.get_rng_state())
    same_numbers(whole, again)
    other = train(recipe.with_settings(["seed=6"]), tmp_path / "other").folder.path
    assert (whole / "metrics.jsonl").read_text() != (other / "metrics.jsonl").read_text()


@pytest.mark.parametrize("step", [2, STEPS])
def test_a_killed_process_loses_at_most_the_epoch(recipe, whole, same_numbers, cut, step) -> None:
    folder = cut(recipe, step, killed=True, report=False)
    assert len(load_run(folder.path).rows) == step // STEPS
    same_numbers(whole, train(recipe, folder.path, report=False).folder.path)


@pytest.mark.parametrize("step", [0, STEPS - 1, 2 * STEPS + 3])
def test_ctrl_c_saves_even_the_batch(recipe, whole, same_numbers, cut, step) -> None:
    """Ctrl-C stops after the batch, says how to go on, and that gives the same final numbers."""
    folder = cut(recipe, step, report=False)
    saved = folder.load_checkpoint()
    assert (saved["epoch"], saved["batch"]) == (step // STEPS, step % STEPS + 1)
    same_numbers(whole, train(recipe, folder.path, report=False).folder.path)


@pytest.mark.parametrize("moment", ["checkpoint", "row", "half a row", "predictions", "evaluation"])
def test_being_killed_while_writing_does_no_harm(
    recipe, tmp_path, whole, same_numbers, monkeypatch, moment
) -> None:

    def half_a_row(folder: RunFolder, _row: dict[str, object]) -> None:
        folder.metrics.write_text(folder.metrics.read_text() + '{"epoch": 2, "lear')

    owner, name, number, leave = {
        "checkpoint": (torch, "save", 2, lambda _state, path: path.write_bytes(b"half")),
        "row": (RunFolder, "append_row", 2, lambda *_: None),
        "half a row": (RunFolder, "append_row", 2, half_a_row),
        "predictions": (Predictions, "save", 1, lambda *_: None),
        "evaluation": (run_report, "write_run_report", 1, lambda *_settings: None),
    }[moment]
    write, calls = getattr(owner, name), itertools.count(1)

    def dying(*given: object, **settings: object) -> None:
        if next(calls) == number:
            leave(*given)
            raise RuntimeError(moment)
        write(*given, **settings)

    monkeypatch.setattr(owner, name, dying)
    with pytest.raises(RuntimeError, match=moment):
        train(recipe, tmp_path / "cut")
    assert not (tmp_path / "cut" / "evaluation.json").exists()
    monkeypatch.undo()
    train(recipe, tmp_path / "cut")
    same_numbers(whole, tmp_path / "cut")
    assert sorted(path.name for path in whole.iterdir()) == sorted(
        path.name for path in (tmp_path / "cut").iterdir()
    )


def test_the_best_epoch_and_patience_survive_a_stop(recipe, tmp_path, same_numbers, cut) -> None:
    """A stop after the best epoch forgets neither its weights nor that patience ran out."""
    settings = ["optimiser.learning_rate=0.3", "schedule.name=constant", "schedule.milestones=[]"]
    more = ["training.epochs=8", "training.patience=2", "training.keep=best"]
    mine = recipe.with_settings([*settings, *more])
    whole = train(mine, tmp_path / "whole")
    best = whole.kept_row["epoch"]
    assert len(whole.rows) == best + 2 < 8
    folder = cut(mine, (best + 1) * STEPS + 1)
    for _ in range(2):
        same_numbers(whole.folder.path, train(mine, folder.path).folder.path)
        folder.evaluation.unlink()  # as if killed before the end


def test_a_finished_run_is_not_done_again(recipe, tmp_path, monkeypatch) -> None:
    first = train(recipe, tmp_path / "run")
    monkeypatch.setattr(Learner, "learn", None)
    again = train(recipe, tmp_path / "run")
    assert again.rows == first.rows
    assert again.evaluation == first.evaluation
    sessions = json.loads((tmp_path / "run" / "environment.json").read_text())["sessions"]
    assert len(sessions) == 2
    assert sessions[0]["versions"]["torch"] == torch.__version__


def test_a_finished_run_is_evaluated_as_the_recipe_says_now(recipe, tmp_path, monkeypatch) -> None:
    first = train(recipe, tmp_path / "run")
    monkeypatch.setattr(Learner, "learn", None)
    changed = recipe.with_settings(["evaluation.num_bins=5", "evaluation.calibrators=['vector']"])
    again = train(changed, tmp_path / "run")
    assert again.rows == first.rows
    assert [arm.name for arm in again.evaluation.arms] == ["uncalibrated", "vector"]
    assert again.recipe.evaluation.num_bins == 5
    kept = again.folder.evaluation.stat().st_mtime_ns
    train(changed.with_settings(["hardware.accelerator=auto"]), tmp_path / "run")
    assert again.folder.evaluation.stat().st_mtime_ns == kept


def test_a_run_in_use_keeps_its_recipe_and_results(recipe, tmp_path) -> None:
    """Who waits for the lock changes nothing, whatever evaluation is asked for."""
    run = train(recipe, tmp_path / "run")
    kept = {path: path.read_bytes() for path in (run.folder.recipe, run.folder.evaluation)}
    changed = recipe.with_settings(["evaluation.num_bins=5"])
    with run.folder.locked():
        refused("is in use", train, changed, tmp_path / "run")
    assert {path: path.read_bytes() for path in kept} == kept


def test_a_training_without_its_checkpoint_leaves_no_old_results(recipe, tmp_path, rng) -> None:
    """Also where the data have changed."""
    path = tmp_path / "data.npz"
    for size, test in ((300, 60), (280, 56)):
        np.savez(path, x_train=rng.normal(size=(size, 4)), y_train=np.arange(size) % 3)
        settings = [f"data.name={path}", "data.augment=[]", "data.calibration=50", "data.train=150"]
        run = train(recipe.with_settings([*settings, "training.epochs=1"]), tmp_path / "run")
        assert run.predictions.num_samples == run.evaluation.num_test + 50
        assert run.predictions.test.num_samples == test
        run.folder.checkpoint.unlink()


class Following(nn.Module):
    """Changes after each epoch what is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.factor, self.seen = 0.0, (torch.zeros(2), [0])

    def update(self, confidences: torch.Tensor, correct: torch.Tensor) -> None:
        self.factor += 0.1
        means = torch.stack([confidences.double().mean(), correct.double().mean()])
        self.seen = (means.float(), [*self.seen[1], np.float64(means[0]).item()])

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        smoothing = min(0.5, self.factor + 0.01 * len(self.seen[1]) + 0.1 * float(self.seen[0].sum()))
        return nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing)


def test_what_a_loss_learned_survives_a_stop(recipe, tmp_path, same_numbers, cut) -> None:
    mine = recipe.with_settings([f"loss={__name__}:Following"])
    whole = train(mine, tmp_path / "whole", report=False)
    folder = cut(mine, 2 * STEPS, killed=True, report=False)
    same_numbers(whole.folder.path, train(mine, folder.path, report=False).folder.path)


def test_another_recipe_is_refused(recipe, tmp_path) -> None:
    train(recipe, tmp_path / "run")
    words = r"made by another recipe \(seed: 5 there, 6 here and 1 more\)"
    refused(words, train, recipe.with_settings(["seed=6", "training.epochs=9"]), tmp_path / "run")
    words = r"has training.epochs = 4, .* --epochs 3 and another --out"
    refused(words, train, recipe.with_settings(["training.epochs=3"]), tmp_path / "run")
    train(recipe.with_settings(["hardware.accelerator=auto", "evaluation.bootstrap=11"]), tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    refused("is not empty and holds no run", train, recipe, tmp_path / "other")


def test_other_data_are_refused(recipe, tmp_path, rng, cut) -> None:
    path = tmp_path / "data.npz"
    labels = np.arange(300) % 3
    np.savez(path, x_train=rng.normal(size=(300, 4)), y_train=labels)
    settings = [f"data.name={path}", "data.augment=[]", "data.calibration=50", "data.train=150"]
    mine = recipe.with_settings(settings)
    folder = cut(mine, 7, killed=True)
    np.savez(path, x_train=rng.normal(size=(300, 4)), y_train=labels)
    refused("was trained on other data", train, mine, folder.path)


def test_a_broken_checkpoint_is_named(recipe, tmp_path) -> None:
    """A checkpoint that is none is refused in one sentence, and nothing in it is executed."""
    train(recipe.with_settings(["training.epochs=1"]), tmp_path / "run")
    whole = (tmp_path / "run" / "checkpoint.pt").read_bytes()
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"nonsense")
    refused(r"checkpoint.pt cannot be read", load_run, tmp_path / "run")
    (tmp_path / "run" / "checkpoint.pt").write_bytes(whole[: len(whole) // 2])
    refused(r"checkpoint.pt cannot be read: it is damaged or was cut short", load_run, tmp_path / "run")
    torch.save({"format": 99}, tmp_path / "run" / "checkpoint.pt")
    refused("not a checkpoint that this version", load_run, tmp_path / "run")


@pytest.mark.parametrize("content", ['{"sessions": [', "[]", '{"sessions": []}'])
def test_a_broken_environment_is_named(recipe, tmp_path, content) -> None:
    short = recipe.with_settings(["training.epochs=1"])
    run = train(short, tmp_path / "run", report=False)
    run.folder.environment.write_text(content)
    for use in (lambda: run.data_sha256, lambda: train(short, tmp_path / "run", report=False)):
        refused(r"environment.json is (missing or )?damaged", use)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_after_a_full_disk_the_same_command_goes_on(recipe, tmp_path, monkeypatch, number) -> None:
    """Whichever file of a run finds no room: once there is some, the folder is taken up again."""
    short, writes = recipe.with_settings(["training.epochs=1"]), itertools.count(1)

    def full(path: Path, text: str) -> None:
        if next(writes) == number:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_text(path, text)

    monkeypatch.setattr("calibrant_lab.training.run.write_text", full)
    if number < 4:
        with pytest.raises(OSError, match="No space left"):
            train(short, tmp_path / "run", report=False)
    assert len(train(short, tmp_path / "run", report=False).rows) == 1
