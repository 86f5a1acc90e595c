"""A small recipe, and ways to end a training before its time."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from calibrant_lab.training import Recipe, TrainingInterrupted, train
from calibrant_lab.training.learner import Learner
from calibrant_lab.training.run import RunFolder
from undrawn import drawing_no_diagrams, drawing_nothing

STOPPED = r"stopped after (1 complete epoch|\d complete epochs); .*`calibrant train .*cut` resumes from there"


class Killed(BaseException):
    """Stands for a process that dies: nothing catches it."""


@pytest.fixture
def short_trainings() -> Iterator[None]:
    """The reports of runs are whole but for pictures."""
    with drawing_no_diagrams():
        yield


@pytest.fixture
def short_reports() -> Iterator[None]:
    with drawing_nothing():
        yield


@pytest.fixture(scope="session")
def whole(recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that nothing disturbed; not to be written to."""
    with drawing_nothing():
        return train(recipe, tmp_path_factory.mktemp("runs") / "whole").folder.path


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    """Digits on a small network with dropout and augmentation: everything that draws random numbers."""
    return Recipe.read(
        {
            "seed": 5,
            "model": "mlp(widths=(16,), dropout=0.2)",
            "loss": "cross-entropy",
            "data": {"name": "digits", "train": 200, "calibration": 150, "augment": ["crop(padding=1)"]},
            "optimiser": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "clip_norm": 2.0},
            "schedule": {"name": "steps", "milestones": [2]},
            "training": {"epochs": 4, "batch_size": 48},
            "hardware": {"accelerator": "cpu", "threads": 1},
            "evaluation": {"calibrators": ["temperature"], "bootstrap": 10},
        }
    )


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., RunFolder]:
    """Train in ``cut`` until Ctrl-C comes, or the process dies, in the batch with this number."""

    def begin(recipe: Recipe, step: int, *, killed: bool = False, report: bool = True) -> RunFolder:
        ended = (Killed, r"^$") if killed else (TrainingInterrupted, STOPPED)
        with monkeypatch.context() as patch:
            _at_step(patch, step, _die if killed else lambda: signal.raise_signal(signal.SIGINT))
            with pytest.raises(ended[0], match=ended[1]):
                train(recipe, tmp_path / "cut", report=report)
        return RunFolder(tmp_path / "cut")

    return begin


@pytest.fixture
def same_numbers() -> Callable[[Path, Path], None]:

    def check(first: Path, second: Path) -> None:
        assert (first / "metrics.jsonl").read_text() == (second / "metrics.jsonl").read_text()
        with np.load(first / "predictions.npz") as one, np.load(second / "predictions.npz") as other:
            assert one.files == other.files
            for name in one.files:
                assert np.array_equal(one[name], other[name]), name

    return check


def _at_step(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], Any]) -> None:
    learn, count = Learner.learn, iter(range(10**9))

    def counted(self: Learner, rows: Any, **where: int) -> Any:
        if next(count) == number:
            act()
        return learn(self, rows, **where)

    monkeypatch.setattr(Learner, "learn", counted)


def _die() -> None:
    raise Killed


@pytest.fixture(scope="session")
def quick() -> Recipe:
    report = {"bootstrap": 10, "calibrators": ["temperature"]}
    cpu, short = {"accelerator": "cpu", "threads": 1}, {"epochs": 1, "batch_size": 16}
    return Recipe.read({"training": short, "hardware": cpu, "evaluation": report})


@pytest.fixture(scope="session")
def images(quick: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A recipe for 60 small images of two classes in a folder."""
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for kind, level in (("dark", 90), ("light", 160)):
        (folder / kind).mkdir()
        for number in range(30):
            pixels = np.clip(level + rng.integers(-60, 60, (8, 8)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / kind / f"{number:02}.png")
    data = [f"data.name={folder}", "data.size=6", "data.test=20", "data.calibration=12"]
    data += ["data.normalise=none", "data.augment=['crop(padding=1)']"]
    few = ["training.epochs=2", "training.batch_size=7", "evaluation.batch_size=5"]
    return quick.with_settings(["model=mlp(widths=(8,))", *data, *few])


@pytest.fixture(scope="session")
def lazy(images: Recipe) -> Recipe:
    """The same with so little memory that nothing is decoded before it is needed."""
    return images.with_settings(["data.memory=1e-9"])
