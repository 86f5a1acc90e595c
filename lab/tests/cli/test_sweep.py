"""``calibrant sweep`` and ``calibrant runs``: what they say, and their exit codes."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from calibrant_lab.sweep.grid import load_grid
from command_line import call, one_line

GRID = """
[recipe]
model = "mlp(widths=(4,))"
data = { train = 60, calibration = 60, test = 60 }
training = { epochs = 1, batch_size = 32 }
optimiser = { name = "adam" }
hardware = { accelerator = "cpu", threads = 1 }
evaluation = { calibrators = ["temperature"] }

[axes]
seed = [0, 1]
loss = ["cross-entropy", "brier"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid, and a store with its runs; not to be changed."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "grid.toml").write_text(GRID, encoding="utf-8")
    done = call("sweep", "grid.toml", "--engine", "serial", "--where", "loss=cross*", folder=folder)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "grid.toml: 2 runs")
    plan = call("sweep", "grid.toml", "--dry-run", "--jobs", "2", folder=folder)
    assert plan.stdout.splitlines()[:2] == ["4 runs", "finished: 2"]
    assert "To do: 2, 2 at once; about " in plan.stdout
    done = call("sweep", "grid.toml", "--engine", "serial", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "3/4  seed=0 loss=brier" in one_line(done.stderr)
    assert "4/4  seed=1 loss=brier" in one_line(done.stderr)
    rows = [row.split()[1] for row in done.stdout.splitlines() if row[:1] == "│"]
    assert rows == ["cross-entropy", "brier"]
    return folder


def points(folder: Path) -> list[dict[str, Any]]:
    return [dict(point.settings) for point in load_grid(folder / "grid.toml").points]


def test_the_runs_are_listed(folder) -> None:
    """A row for each, chosen by settings; totals, and the size on disk; nothing is left to do."""
    plan = call("sweep", "grid.toml", "--dry-run", folder=folder)
    assert (plan.returncode, plan.stdout.splitlines()[-1]) == (0, "To do: nothing")
    listed = call("runs", "store", "--where", "loss=brier", folder=folder)
    assert listed.returncode == 0
    assert "2 runs: 2 finished" in listed.stdout
    assert "on disk: " in listed.stdout
    lines = call("runs", "store", "--where", "seed=1", "--json", folder=folder).stdout.splitlines()
    runs = [json.loads(line) for line in lines]
    assert [run["settings"]["seed"] for run in runs] == [1, 1]
    assert all(0 <= run["metrics"]["temperature"]["ece"] <= 1 for run in runs)


def test_known_runs_are_not_planned(folder) -> None:
    """The runs of a results file are left out of the grid; a file that has none is refused."""
    runs = [{"settings": {"seed": seed, "loss": "brier"}, "found": {}} for seed in (0, 1)]
    shared = {key: value for key, value in points(folder)[0].items() if key not in {"seed", "loss"}}
    content = {"common": {"settings": shared}, "runs": runs}
    (folder / "known.json").write_text(json.dumps(content), encoding="utf-8")
    plan = call("sweep", "grid.toml", "--known", "known.json", "--store", "new", "--dry-run", folder=folder)
    assert plan.stdout.splitlines()[:3] == ["known.json has 2 of 4 runs.", "2 runs", "finished: 0"]
    content["runs"] = [{"settings": each} for each in points(folder)]
    (folder / "whole.json").write_text(json.dumps(content), encoding="utf-8")
    done = call("sweep", "grid.toml", "--known", "whole.json", "--store", "new", folder=folder)
    assert (done.returncode, done.stdout) == (0, "whole.json has 4 of 4 runs.\nnothing to do\n")
    assert not (folder / "new").exists()
    refused = call("sweep", "grid.toml", "--known", "grid.toml", "--dry-run", folder=folder)
    assert refused.returncode == 2
    assert "grid.toml: not the results file of a study" in one_line(refused.stderr)


def test_a_dry_run_leaves_nothing(tmp_path) -> None:
    (tmp_path / "grid.toml").write_text(GRID, encoding="utf-8")
    plan = call("sweep", "grid.toml", "--dry-run", folder=tmp_path)
    assert "the time is not known yet" in plan.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["grid.toml"]


def test_failed_runs_are_shown_retried_and_pruned(tmp_path) -> None:
    """Exit code 1 says that runs failed; the reason is shown; they are done again on request alone."""
    bad = GRID.replace('"brier"]', '"focal(gamma=-3)"]').replace("[0, 1]", "[0]")
    (tmp_path / "grid.toml").write_text(bad, encoding="utf-8")
    arguments = ("sweep", "grid.toml", "--engine", "serial")
    done = call(*arguments, folder=tmp_path)
    assert done.returncode == 2, "a loss that cannot be built is refused before anything runs"
    bad = bad.replace("focal(gamma=-3)", "multilabel-focal")
    (tmp_path / "grid.toml").write_text(bad, encoding="utf-8")
    done = call(*arguments, folder=tmp_path)
    assert done.returncode == 1
    assert "failed: 1; `calibrant runs store --failed` shows why" in done.stdout
    listed = call("runs", "store", "--failed", folder=tmp_path)
    assert "must" in listed.stdout
    assert call(*arguments, "--quiet", folder=tmp_path).stderr == ""
    again = call(*arguments, "--retry", "failed", folder=tmp_path)
    assert (again.returncode, "Running again: 1 that failed" in again.stdout) == (1, True)
    assert "removed 1 run\n" in call("runs", "store", "--prune", "failed", "--yes", folder=tmp_path).stdout
    assert "nothing to remove" in call("runs", "store", "--prune", "failed", "--yes", folder=tmp_path).stdout
    assert call("runs", "store", "--prune", "predictions", "-y", folder=tmp_path).returncode == 0
    assert not list((tmp_path / "store").rglob("predictions.npz"))
    refused = call("runs", "store", "--prune", "chosen", folder=tmp_path)
    assert (refused.returncode, "give one" in one_line(refused.stderr)) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sweep", "grid.toml", "--where", "los=brier"), "there is no setting los; did you mean 'loss'?"),
        (("sweep", "grid.toml", "--engine", "poool"), "there is no engine 'poool'; did you mean 'pool'?"),
        (("sweep", "digits-loses"), "nor the name of a grid; did you mean 'digits-losses'?"),
        (("runs", "nowhere"), "nowhere is not a store of runs"),
        (("runs", "store", "--where", "los=brier"), "there is no setting los; did you mean 'loss'?"),
        (("runs", "store", "--where", "seed"), 'must have the form "setting=value"'),
    ],
)
def test_wrong_input(folder, arguments, words) -> None:
    done = call(*arguments, folder=folder)
    assert (done.returncode, words in one_line(done.stderr)) == (2, True), done.stderr


def test_a_sweep_that_is_stopped_says_so_once(folder, tmp_path, monkeypatch) -> None:
    """Ctrl-C is exit code 130 and one sentence, which says how to go on."""
    monkeypatch.setattr("calibrant_lab.sweep.sweep.sweep", Mock(side_effect=KeyboardInterrupt))
    done = call("sweep", str(folder / "grid.toml"), "--engine", "serial", folder=tmp_path)
    assert done.returncode == 130
    assert done.stderr.splitlines()[0].startswith("calibrant: stopped with 0 of 4 runs finished")
    assert done.stderr.count("calibrant:") == 1
