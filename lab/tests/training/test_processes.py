"""Several processes do what one does, whether they are spawned or a launcher started them."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from calibrant_lab.training import Recipe, Run, load_run, train
from undrawn import drawing_nothing

pytestmark = pytest.mark.slow  # every process imports torch anew

PENALTIES = {
    "sum": ["curvature.weight=0.01", "curvature.every=2", "reduction=sum", "optimiser.learning_rate=0.02"],
    "last-layer": ["curvature.weight=0.01", "curvature.estimator=last-layer"],
    "sam": ["sam.rho=0.05"],
}
OWN_VECTORS = ["curvature.weight=0.02", "curvature.estimator=gauss-newton"]
CLIPPED = ["optimiser.clip_norm=1.6"]
STATISTICS = ["model=resnet(blocks=(1,), width=4)", "training.epochs=1", "data.train=60"]


@pytest.fixture(scope="module")
def plain(recipe: Recipe) -> Recipe:
    """Without dropout, whose masks belong to a process; with batches and blocks that do not divide evenly."""
    return recipe.with_settings(["model=mlp(widths=(16,))", "training.epochs=2", "evaluation.batch_size=37"])


@pytest.fixture(scope="module")
def shared(plain: Recipe) -> Recipe:
    """With batches that two processes share 3 : 2."""
    return plain.with_settings(["training.batch_size=5", "data.train=60"])


@pytest.fixture(scope="module")
def launched(
    plain: Recipe, shared: Recipe, lazy: Recipe, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Run]:
    """The runs of two processes that import torch once for all of them."""
    wanted = {name: shared.with_settings(settings) for name, settings in PENALTIES.items()}
    wanted |= {"clipped": shared.with_settings(CLIPPED)}
    wanted |= {"plain": shared, "own-vectors": shared.with_settings(OWN_VECTORS), "lazy": lazy}
    wanted |= dict.fromkeys(("statistics", "statistics-again"), plain.with_settings(STATISTICS))
    folder = tmp_path_factory.mktemp("launched")
    for name, recipe in wanted.items():
        (folder / name).mkdir()
        of_two = recipe.with_settings(["hardware.devices=2"])
        (folder / name / "wanted.toml").write_text(of_two.to_toml(), encoding="utf-8")
    command = [sys.executable, str(Path(__file__).with_name("launched.py"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ports = free_ports(len(wanted))
    processes = [
        subprocess.Popen([*command, str(rank), str(folder), *ports], env=environment) for rank in range(2)
    ]
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    return {name: load_run(folder / name / "run") for name in wanted}


def free_ports(count: int) -> list[str]:
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [str(each.getsockname()[1]) for each in sockets]


def alone(recipe: Recipe, folder: Path) -> Run:
    with drawing_nothing():
        return train(recipe, folder)


def assert_alike(one: Run, two: Run) -> None:
    """Sums are taken in another order, so numbers agree to float32 rounding grown over 24 steps."""
    torch.testing.assert_close(one.predictions.scores, two.predictions.scores, rtol=1e-3, atol=1e-4)
    for first, second in zip(one.rows, two.rows, strict=True):
        assert first.keys() == second.keys()
        for name, value in first.items():
            assert second[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name


def test_two_processes_judge_as_one(plain, tmp_path) -> None:
    """Logits from two spawned processes are bitwise those of one, and so are ECE, NLL and the calibrator."""
    one = train(plain, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    for name in ("predictions.npz", "evaluation.json", "report.html"):
        (tmp_path / "two" / name).unlink()
    two = train(plain.with_settings(["hardware.devices=2"]), tmp_path / "two")
    assert torch.equal(one.predictions.scores, two.predictions.scores)
    assert torch.equal(one.predictions.labels, two.predictions.labels)
    assert one.evaluation.arms == two.evaluation.arms


def test_two_processes_train_and_clip_as_one(shared, launched, tmp_path) -> None:
    assert_alike(alone(shared, tmp_path / "plain"), launched["plain"])
    one = alone(shared.with_settings(CLIPPED), tmp_path / "one")
    assert_alike(one, launched["clipped"])
    assert {"gradient_norm", "clipped"} <= one.rows[0].keys()
    assert 0 < one.rows[0]["clipped"] < 1


@pytest.mark.parametrize("penalty", PENALTIES)
def test_two_processes_penalise_as_one(penalty, shared, launched, tmp_path) -> None:
    """One vector on both shares, and gradients averaged by samples, give the numbers of whole batches."""
    settings, two = PENALTIES[penalty], launched[penalty]
    assert_alike(alone(shared.with_settings(settings), tmp_path / "one"), two)
    without = alone(shared.with_settings([each for each in settings if "optim" in each]), tmp_path / "plain")
    assert not torch.allclose(two.predictions.scores, without.predictions.scores, rtol=1e-2, atol=1e-2)
    assert two.cost is not None


def test_each_process_has_its_own_vectors(shared, launched, tmp_path) -> None:
    """By the Gauss-Newton estimate two processes draw apart; their mean trace is that of one to a half."""
    one, two = alone(shared.with_settings(OWN_VECTORS), tmp_path / "one"), launched["own-vectors"]
    assert not torch.equal(one.predictions.scores, two.predictions.scores)
    for first, second in zip(one.rows, two.rows, strict=True):
        assert second["train_trace"] == pytest.approx(first["train_trace"], rel=0.5)


def test_batch_statistics_are_shared(launched) -> None:
    run, again = launched["statistics"], launched["statistics-again"]
    assert torch.equal(run.predictions.scores, again.predictions.scores)
    assert run.evaluation is not None


def test_two_processes_decode_their_own_share(lazy, launched, tmp_path) -> None:
    one, two = alone(lazy, tmp_path / "one"), launched["lazy"]
    torch.testing.assert_close(one.predictions.scores, two.predictions.scores, rtol=1e-3, atol=1e-4)
    assert one.data_sha256 == two.data_sha256
