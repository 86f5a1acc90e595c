"""What holds the benchmarks' numbers against their bars; nothing is timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
ENVIRONMENT = {"processor": "a chip", "cores": 2, "python": "3.12"}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two benchmarks that meet their bars."""
    entries = {
        "calibrant": {"milliseconds": 40.0, "times_ours": 1.0, "value": 0.125},
        "other": {"milliseconds": 100.0, "times_ours": 2.5, "value": 0.126},
    }
    task = {
        "num_samples": 1000,
        "num_classes": 10,
        "bar": {
            "times_faster_than": {"other": 2},
            "milliseconds": 50,
            "bytes_per_sample": 200,
            "value_within": 1e-9,
        },
        "threads": {"1": entries, "2": entries},
        "peak_megabytes": {"calibrant": 0.1},
        "reference": 0.125,
    }
    write(tmp_path, "metrics", {"environment": ENVIRONMENT, "tasks": {"ECE": task}})
    growth = {"smCE": {"exponent": 1.02}}
    write(tmp_path, "growth", {"environment": ENVIRONMENT, "metrics": growth})
    return tmp_path


def write(folder: Path, name: str, content: dict[str, Any]) -> None:
    """A file of results."""
    (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the folder."""
    command = [sys.executable, str(FOLDER / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_bars_that_are_met(results) -> None:
    """Every bar has a line, at one thread and at two; what was not run is said."""
    ended = run("check.py", "--results", str(results))
    assert ended.returncode == 0, ended.stderr
    assert (
        "ok     metrics: ECE, N = 1,000, C = 10, 2 threads: 40.0 ms, 2.5 × faster than other" in ended.stdout
    )
    assert "not run: benchmarks/losses.py" in ended.stdout
    assert ended.stdout.endswith("7 of 7 bars are met.\n")


@pytest.mark.parametrize(
    ("where", "value", "missed"),
    [
        (
            ("threads", "2", "other", "times_ours"),
            1.9,
            "2 threads: 40.0 ms, 1.9 × faster than other (bar ≥ 2 ×)",
        ),
        (("threads", "1", "calibrant", "milliseconds"), 51.0, "1 thread: 51.0 ms (bar ≤ 50 ms)"),
        (("peak_megabytes", "calibrant"), 1.0, "extra memory: 1049 bytes per sample (bar ≤ 200)"),
        (("reference",), 0.126, "value: 0.001 off (bar ≤ 1e-09)"),
    ],
)
def test_a_bar_that_is_missed(results, where, value, missed) -> None:
    """Each kind of bar is able to fail, and is named."""
    content = json.loads((results / "metrics.json").read_text(encoding="utf-8"))
    place = content["tasks"]["ECE"]
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    write(results, "metrics", content)
    ended = run("check.py", "--results", str(results))
    assert ended.returncode == 1
    assert [line for line in ended.stdout.splitlines() if line.startswith("MISSED") and missed in line]


def test_the_page_is_made_from_the_results(results, tmp_path) -> None:
    """Between its markers and nowhere else; ``--check`` knows when it is not up to date."""
    page = tmp_path / "benchmarks.md"
    start, end = "<!-- benchmarks: made by benchmarks/page_table.py -->", "<!-- end of benchmarks -->"
    page.write_text(f"before\n{start}\n{end}\nafter\n", encoding="utf-8")
    arguments = ("--page", str(page), "--results", str(results))
    assert run("page_table.py", "--check", *arguments).returncode == 1
    assert run("page_table.py", *arguments).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{start}\n| work | measured | bar |")
    assert text.endswith(f"Measured on a chip, 2 cores, Python 3.12 (growth, metrics).\n{end}\nafter\n")
    assert run("page_table.py", "--check", *arguments).returncode == 0
    page.write_text("nothing", encoding="utf-8")
    assert "must hold the markers" in run("page_table.py", *arguments).stderr


def test_bars_of_curvature(tmp_path) -> None:
    """Errors are held against a number, CPU time against a peer, and the trace against the best peer."""
    ours = {"budget": "60", "cpu_milliseconds": 10.0, "error": 1e-6}
    peer = {"budget": "as it comes", "cpu_milliseconds": 20.0, "error": 1e-3}
    found = {
        "ours": ours,
        "methods": {"calibrant": [ours], "PyHessian": [peer]},
        "error_at_our_time": {"calibrant": 1e-6, "calibrant, xtrace": 1e-9, "PyHessian": 1e-3, "slow": None},
    }
    eigenvalue = found | {"bar": {"error": 1e-5, "no_slower_than": "PyHessian"}}
    trace = found | {"bar": {"products": 60, "no_less_exact_than_peers": True}}
    content = {"environment": ENVIRONMENT, "tasks": {"top eigenvalue": eigenvalue, "trace": trace}}
    write(tmp_path, "curvature", content)
    ended = run("check.py", "--results", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "3 of 3 bars are met" in ended.stdout
    ours |= {"cpu_milliseconds": 30.0, "error": 0.01}
    write(tmp_path, "curvature", content)
    ended = run("check.py", "--results", str(tmp_path))
    assert ended.returncode == 1
    assert ended.stdout.count("MISSED") == 3
