"""An option that a command does nothing with is refused, not passed over."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from calibrant.calibrators import PlattScaling
from command_line import call, one_line


@pytest.fixture
def run(tmp_path):
    """A table with groups and times, and what runs a command beside it."""
    rng = np.random.default_rng(0)
    rows = [
        f"{int(rng.random() < p)},{p:.3f},{'ab'[k % 2]},2026-01-{1 + k // 20:02d},{k // 4}"
        for k, p in enumerate(rng.random(400))
    ]
    for name in ("t.csv", "other.csv"):
        (tmp_path / name).write_text("label,prob,site,day,patient\n" + "\n".join(rows))
    PlattScaling().fit(rng.normal(size=200), rng.integers(0, 2, 200)).save(tmp_path / "c.safetensors")
    return functools.partial(call, folder=tmp_path)


COMMANDS = {
    "evaluate": ("evaluate", "t.csv", "--method", "temperature", "--bootstrap", "20"),
    "check": ("check", "t.csv", "--max-ece", "0.3", "--bootstrap", "20"),
    "compare": ("compare", "t.csv", "other.csv", "--bootstrap", "20"),
    "monitor": ("monitor", "t.csv", "--time", "day"),
    "fit by group": ("fit", "t.csv", "--all", "--by-group", "--method", "platt", "-o", "by.safetensors"),
    "fit": ("fit", "t.csv", "--all", "--method", "platt", "-o", "p.safetensors"),
    "apply": ("apply", "c.safetensors", "t.csv", "-o", "p.csv"),
    "figure": ("figure", "reliability", "t.csv", "-o", "r.svg"),
}
USED = {"evaluate", "check", "fit by group"}


@pytest.mark.parametrize("name", COMMANDS)
def test_groups_are_used_or_refused(run, name) -> None:
    """``--group-column`` changes what a command does, or the command names the option and stops."""
    done = run(*COMMANDS[name], "--group-column", "site")
    if name in USED:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 2
    assert "--group-column is not used here: " in one_line(done.stderr)


@pytest.mark.parametrize("name", ["fit", "apply"])
def test_clusters_are_refused_where_nothing_is_judged(run, name) -> None:
    """A calibrator that was chosen is fitted, and applied, alike whatever hangs together."""
    done = run(*COMMANDS[name], "--cluster", "patient")
    assert done.returncode == 2
    assert "--cluster is not used here: " in one_line(done.stderr)


@pytest.mark.parametrize("option", [("--percent",), ("--kind", "binary"), ("--iou", "0.7")])
def test_a_stream_refuses_what_it_does_not_read_by(run, option) -> None:
    """``monitor`` reads a table with times by its columns alone."""
    done = run(*COMMANDS["monitor"], *option)
    assert done.returncode == 2
    assert f"{option[0]} is not used here: " in one_line(done.stderr)


def test_groups_that_are_clusters_are_used(run) -> None:
    """A column may name groups for the sake of ``--cluster``."""
    done = run(*COMMANDS["compare"], "--group-column", "patient", "--cluster", "patient")
    assert done.returncode == 0, done.stderr
