"""``calibrant train`` as a user meets it, killed and interrupted too."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import calibrant
from calibrant._math.errors import InputError
from calibrant.cli.main import app
from command_line import START, one_line

RECIPE = """
model = "slow_network:make"
seed = 3
[data]
name = "digits"
train = 200
calibration = 150
[optimiser]
learning_rate = 0.05
[training]
epochs = 6
batch_size = 50
[hardware]
accelerator = "cpu"
threads = 1
[evaluation]
calibrators = ["temperature"]
bootstrap = 10
"""
NETWORK = '''
import time
from torch import nn

class Slow(nn.Module):
    """Takes its time in training, so that a test can end it before it ends."""
    def __init__(self, num_classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Dropout(0.3), nn.ReLU(),
        nn.Linear(16, num_classes))

    def forward(self, images):
        if self.training:
            time.sleep(0.02)
        return self.layers(images)

def make(num_classes):
    return Slow(num_classes)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "slow_network.py").write_text(NETWORK)
    return tmp_path


def started(folder: Path, out: str) -> subprocess.Popen[str]:
    """A training under way, two epochs in."""
    command, pipes = [*START, "train", "recipe.toml", "--out", out], {"stdout": -1, "stderr": -1}
    process = subprocess.Popen(command, cwd=folder, text=True, start_new_session=True, **pipes)
    metrics = folder / out / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") >= 2):
        time.sleep(0.005)
    return process


def same_numbers(first: Path, second: Path) -> bool:
    return all(
        (first / name).read_bytes() == (second / name).read_bytes()
        for name in ("predictions.npz", "metrics.jsonl")
    )


@pytest.mark.slow
def test_killed_and_interrupted_runs_go_on_to_the_same_numbers(run, folder) -> None:
    """After ``kill -9`` or Ctrl-C the same command, or the directory's name, goes on to the same bits."""
    assert run("train", "recipe.toml", "--out", "whole").returncode == 0

    process = started(folder, "killed")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (folder / "killed" / "evaluation.json").exists()
    done = run("train", "recipe.toml", "--out", "killed")
    assert done.returncode == 0, done.stderr
    assert "resuming after epoch" in one_line(done.stderr)
    assert same_numbers(folder / "whole", folder / "killed")

    process = started(folder, "stopped")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "everything is saved, and `calibrant train stopped` resumes from there" in said
    assert "Traceback" not in said
    done = run("train", "stopped")
    assert done.returncode == 0, done.stderr
    assert same_numbers(folder / "whole", folder / "stopped")


@pytest.mark.slow
def test_everything_is_settable_and_printed(run, folder) -> None:
    done = run(
        "train", "recipe.toml", "--model", "mlp(widths=(8,))",
        "--loss", "torch.nn:CrossEntropyLoss(label_smoothing=0.1)", "--seed", "9", "--epochs", "2",
        "--set", "optimiser.name=adam", "--set", "reduction=sum", "--out", "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "summed over batches of 50" in one_line(done.stderr)
    assert "epoch 2/2" in one_line(done.stderr)
    assert "confident" in done.stdout or "calibrated" in done.stdout
    kept = (folder / "run" / "recipe.toml").read_text()
    assert 'name = "adam"' in kept
    assert "seed = 9" in kept
    sessions = json.loads((folder / "run" / "environment.json").read_text())["sessions"]
    assert sessions[0]["command"].startswith("calibrant train recipe.toml --model")
    evaluated = run("evaluate", "run/predictions.npz", "--bootstrap", "10")
    assert evaluated.returncode == 0, evaluated.stderr
    assert calibrant.load_predictions(folder / "run" / "predictions.npz").has_calibration

    done = run("train", "recipe.toml", "--seed", "1", "--out", "run")
    assert done.returncode == 2
    assert done.stderr.startswith("calibrant: run was made by another recipe (")
    assert len(one_line(done.stderr).strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "absent.toml"), "absent.toml"),
        (("train", "recipe.toml", "--set", "training.epoch=3"), "did you mean 'epochs'"),
        (("train", "recipe.toml", "--data", "digts"), "did you mean 'digits'"),
        (("train", "recipe.toml", "--loss", "a", "--select", "a|b"), "exclude each other"),
        (("train", "recipe.toml", "--select", "brier"), "two losses or more"),
        (("train", "."), "holds no run"),
        (("compare", "a", "b"), "a is not finished; `calibrant train a` goes on with it"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(folder, monkeypatch, arguments, words) -> None:
    monkeypatch.chdir(folder)
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "recipe.toml").write_text(RECIPE)
        (folder / name / "environment.json").write_text('{"sessions": []}')
    present = set(folder.rglob("*"))
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InputError | OSError)
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)
    assert set(folder.rglob("*")) == present


@pytest.mark.slow
def test_select_prints_the_choice(run, folder) -> None:
    """--select trains each loss and names the chosen one, with gamma of 7 or more warned of."""
    done = run(
        "train", "recipe.toml", "--model", "mlp(widths=(8,))", "--epochs", "2", "--out", "chosen",
        "--select", "focal(gamma=0|8)", "--select-by", "before",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "gradients die" in one_line(done.stderr)
    assert "Chosen by validation NLL before temperature scaling: focal(gamma=" in done.stdout
    assert (folder / "chosen" / "focal-gamma8" / "report.html").exists()

    names = [f"chosen/focal-gamma{gamma}" for gamma in (0, 8)]
    done = run("compare", *names, "--bootstrap", "10", "--report", "both.html")
    assert done.returncode == 0, done.stderr
    assert "gamma8" in done.stdout  # without what the names have in common
    page = (folder / "both.html").read_text()
    assert "The same images" in page
    assert "What the runs differ in" in page
