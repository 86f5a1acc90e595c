"""Several processes do what one does."""

from __future__ import annotations

import shutil

import pytest
import torch

from calibrant.training import load_run, train

pytestmark = pytest.mark.slow  # every process imports torch anew


@pytest.fixture
def plain(recipe):
    """Without dropout, whose masks belong to a process; with batches and blocks that do not divide evenly."""
    return recipe.with_settings(["model=mlp(widths=(16,))", "training.epochs=2", "evaluation.batch_size=37"])


def test_two_processes_judge_as_one(plain, tmp_path) -> None:
    """Logits from two gloo processes are bitwise those of one, and so are ECE, NLL and the calibrator."""
    one = train(plain, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    for name in ("predictions.npz", "evaluation.json", "report.html"):
        (tmp_path / "two" / name).unlink()
    two = train(plain.with_settings(["hardware.devices=2"]), tmp_path / "two")
    assert torch.equal(one.predictions.scores, two.predictions.scores)
    assert torch.equal(one.predictions.labels, two.predictions.labels)
    assert one.evaluation is not None
    assert two.evaluation is not None
    assert one.evaluation.arms == two.evaluation.arms


def test_two_processes_train_as_one(plain, tmp_path) -> None:
    """Batches shared 3 : 2 by two processes give the gradients, and so the numbers, of whole batches.

    Sums are taken in another order, so logits of size 1 agree to float32 rounding grown over 24 steps.
    The sum is asked of with a penalty on curvature.
    """
    mine = plain.with_settings(["training.batch_size=5", "data.train=60"])
    one = train(mine, tmp_path / "one")
    two = train(mine.with_settings(["hardware.devices=2"]), tmp_path / "two")
    torch.testing.assert_close(one.predictions.scores, two.predictions.scores, rtol=1e-3, atol=1e-4)
    for first, second in zip(one.rows, two.rows, strict=True):
        assert first.keys() == second.keys()
        for name, value in first.items():
            assert second[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name


def test_batch_statistics_are_shared(plain, tmp_path) -> None:
    """With batch normalisation both processes judge with the same running statistics, again and again."""
    settings = [
        "model=resnet(blocks=(1,), width=4)",
        "hardware.devices=2",
        "training.epochs=1",
        "data.train=60",
    ]
    runs = [train(plain.with_settings(settings), tmp_path / name) for name in ("a", "b")]
    assert torch.equal(runs[0].predictions.scores, runs[1].predictions.scores)
    again = load_run(tmp_path / "a")
    assert again.evaluation is not None
