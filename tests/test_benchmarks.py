"""What holds the benchmarks' numbers against their bars; nothing is timed."""

import importlib
import io
import json
import re
import subprocess
import sys
import types
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
ENVIRONMENT = {"processor": "a chip", "cores": 2, "python": "3.12"}


@pytest.fixture
def results(tmp_path: Path) -> Path:
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
    works = {"smCE": {"known": 1.0, "slope": 1.02}, "canonical": {"known": 2.0, "slope": 1.9}}
    groups = {"metrics": {"samples": {"works": works}}}
    write(tmp_path, "growth", {"environment": ENVIRONMENT, "groups": groups})
    fits = {
        "calibrant": {"cpu_milliseconds": 4.0, "log_loss": 0.2},
        "other": {"cpu_milliseconds": 8.0, "log_loss": 0.3},
        "broken": {"error": "ValueError: no"},
    }
    tables = {"500 x 10": {"vector": fits, "spline": {"other": fits["other"]}}}
    write(tmp_path, "calibrator_peers", {"environment": ENVIRONMENT, "tables": tables})
    return tmp_path


def write(folder: Path, name: str, content: dict[str, Any]) -> None:
    (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a script of the benchmarks does with arguments, in this process."""
    output, errors, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
        patch.syspath_prepend(FOLDER)
        patch.setattr(sys, "argv", [script, *arguments])
        try:
            importlib.import_module(script).main()
        except SystemExit as end:
            code = int(bool(end.code))
            errors.write(str(end.code))
    return subprocess.CompletedProcess([script, *arguments], code, output.getvalue(), errors.getvalue())


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


def test_bars_that_are_met(results) -> None:
    """Every bar has a line, at one thread and at two; what was not run is said."""
    ended = run("check", "--results", str(results))
    assert ended.returncode == 0, ended.stderr
    assert (
        "ok     metrics: ECE, N = 1,000, C = 10, 2 threads: 40.0 ms, 2.5 × faster than other" in ended.stdout
    )
    assert "not run: benchmarks/losses.py" in ended.stdout
    assert ended.stdout.endswith("8 of 8 bars are met.\n")


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
    content = json.loads((results / "metrics.json").read_text(encoding="utf-8"))
    place = content["tasks"]["ECE"]
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    write(results, "metrics", content)
    ended = run("check", "--results", str(results))
    assert ended.returncode == 1
    assert [line for line in ended.stdout.splitlines() if line.startswith("MISSED") and missed in line]


def test_a_slope_above_the_known_and_a_slower_fit_are_missed(results) -> None:
    growth = json.loads((results / "growth.json").read_text(encoding="utf-8"))
    growth["groups"]["metrics"]["samples"]["works"]["smCE"]["slope"] = 1.25
    write(results, "growth", growth)
    peers = json.loads((results / "calibrator_peers.json").read_text(encoding="utf-8"))
    peers["tables"]["500 x 10"]["vector"]["other"]["cpu_milliseconds"] = 3.9
    write(results, "calibrator_peers", peers)
    ended = run("check", "--results", str(results))
    assert ended.returncode == 1
    told = ended.stdout
    said = "4.0 ms, 0.200; other 3.9 ms, 0.300; broken does not run (bar the fastest)"
    assert f"MISSED calibrator peers: vector, 500 x 10: {said}\n" in told
    said = "smCE 1.25 (known: 1) (bar ≤ known + 0.2)"
    assert f"MISSED growth: metrics, growth with samples, steepest exponent: {said}\n" in told


def test_a_miss_with_a_known_reason_does_not_fail(results) -> None:
    fits = {
        name: {"cpu_milliseconds": took, "log_loss": 0.9}
        for name, took in (("calibrant", 9.0), ("betacal", 8.0))
    }
    tables = {"tables": {"5000 x 100": {"beta": fits}}}
    write(results, "calibrator_peers", {"environment": ENVIRONMENT} | tables)
    ended = run("check", "--results", str(results))
    assert ended.returncode == 0
    assert "(bar the fastest): it goes on to a gradient below 1e-8\n" in ended.stdout


def test_every_known_miss_is_one(script) -> None:
    """A reason whose bar is met, or whose work has another name, is taken off the list."""
    check = script("check")
    rows, _ = check.held(check.RESULTS)
    assert {row.work for row in rows if not row.met} == set(check.KNOWN)


def test_the_page_is_made_from_the_results(results, tmp_path) -> None:
    """Between its markers and nowhere else; ``--check`` knows when it is not up to date."""
    page = tmp_path / "benchmarks.md"
    start, end = "<!-- benchmarks: made by benchmarks/page_table.py -->", "<!-- end of benchmarks -->"
    page.write_text(f"before\n{start}\n{end}\nafter\n", encoding="utf-8")
    arguments = ("--page", str(page), "--results", str(results))
    assert run("page_table", "--check", *arguments).returncode == 1
    assert run("page_table", *arguments).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{start}\n| work | measured | bar |")
    assert text.endswith(
        f"Measured on a chip, 2 cores, Python 3.12 (calibrator_peers, growth, metrics).\n{end}\nafter\n"
    )
    assert run("page_table", "--check", *arguments).returncode == 0
    page.write_text("nothing", encoding="utf-8")
    assert "must hold the markers" in run("page_table", *arguments).stderr


def test_a_gpu_has_tables_of_its_own(results, tmp_path) -> None:
    """Its versions and its machine are not those of the other results; times are told beside multiples."""
    page = tmp_path / "benchmarks.md"
    page.write_text(
        "<!-- benchmarks: made by benchmarks/page_table.py -->\n<!-- end of benchmarks -->\n",
        encoding="utf-8",
    )
    row = {"microseconds": 150.0, "times_cross_entropy": 3.0}
    content = {
        "environment": {
            "processor": "another chip",
            "cores": 16,
            "python": "3.12",
            "packages": {"torch": "1.0"},
        },
        "device": "one GPU",
        "repeats": 5,
        "sizes": {"samples": 1000, "classes": 3, "last layer": [8, 4, 2]},
        "losses": {"8 x 2": {"torch cross_entropy": {**row, "times_cross_entropy": 1.0}, "focal": row}},
        "last layer": {
            kernel: {"microseconds": time, "value": 2.5} for kernel, time in (("torch", 3e4), ("triton", 2e4))
        },
        "metrics": {"ECE": {"microseconds": 1234.0, "from_cpu": 1e-17}},
    }
    write(results, "on_gpu", content)
    assert run("page_table", "--page", str(page), "--results", str(results)).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert "On one one GPU (PyTorch 1.0, Python 3.12, another chip;" in text
    assert "| focal | 150 | 3.00 |" in text
    assert "| ECE | 1.23 | 1e-17 |" in text
    assert "Metrics of 1,000 samples and 3 classes there:" in text
    assert '20.0 ms by `kernel="triton"`, 1.50 times as fast' in text
    assert "another chip, 16 cores" not in text


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
    ended = run("check", "--results", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "3 of 3 bars are met" in ended.stdout
    ours |= {"cpu_milliseconds": 30.0, "error": 0.01}
    write(tmp_path, "curvature", content)
    ended = run("check", "--results", str(tmp_path))
    assert ended.returncode == 1
    assert ended.stdout.count("MISSED") == 3


def test_a_peak_is_that_of_the_calls(script, monkeypatch) -> None:
    """On a GPU the record of the most memory begins after the first call and is read before it is wiped."""
    import torch

    known = types.ModuleType("losses")
    known.BASE, known.SIZES, known.data = "base", (), None  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "losses", known)
    held = {"peak": 0}
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: held.update(peak=0))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: held["peak"])
    taken = iter((900, 70, 80, 60))

    def call() -> torch.Tensor:
        held["peak"] = max(held["peak"], next(taken))
        return torch.zeros(())

    assert script("on_gpu").timed(call, "cuda", 3)["peak_bytes"] == 80


def test_the_version_is_that_of_the_code(script) -> None:
    """Not that of the metadata of an installation; the commit stands beside it, or nothing without git."""
    from calibrant import __version__

    found = script("environment").environment("calibrant")
    assert found["packages"] == {"calibrant": __version__}
    assert found["commit"] is None or re.fullmatch(r"[0-9a-f]{12}\+?", found["commit"])


def test_numbers_of_the_local_temperature() -> None:
    """The page tells every network's change of the likelihood and of the ECE, and no mean of them."""
    text = " ".join((FOLDER / "README.md").read_text("utf-8").split())
    content = json.loads((FOLDER / "results" / "local_temperature.json").read_text("utf-8"))
    for seed in content["seeds"].values():
        for found in seed.values():
            one, local = (found[f"{name} temperature"]["ece"] for name in ("one", "local"))
            assert f"{one:.4f} → {local:.4f}" in text
            change = f"{found['change_of_nll']:+.4f} ± {found['change_within']:.4f}"
            assert change.replace("-", "−").replace("−0.0000", "0.0000") in text
    varying = [seed["varying"] for seed in content["seeds"].values()]
    losses = [f"{found['one temperature']['nll']:.2f}" for found in varying]
    assert f"of {', '.join(losses[:-1])} and {losses[-1]}" in text
    assert sum(found["change_of_nll"] < -found["change_within"] for found in varying) == 1
    assert "better beyond noise for one network of three" in text


def test_numbers_of_very_many_classes() -> None:
    """Memory is said to be above that of the imports, and times come with the load they were taken at."""
    text = " ".join((FOLDER.parent / "docs/how-to/very-large-tables.md").read_text("utf-8").split())
    content = json.loads((FOLDER / "results" / "wide.json").read_text("utf-8"))
    found = content["sizes"]["2000 x 50000"]
    one, focal = found["temperature"], found["focal-temperature"]
    assert f"a temperature takes {one['cpu_seconds']:.0f} s of CPU time" in text
    assert f"a focal temperature {focal['cpu_seconds']:.0f} s" in text
    memory = round(max(one["peak_megabytes"], focal["peak_megabytes"]), -1)
    assert f"{memory:.0f} MB above what the imports take" in text
    assert (
        f"a load of {content['load_at_start']:.1f} on {content['environment']['cores']} cores"
        in text.replace("two", "2")
    )
    assert ("those of earlier searches" in text) == ("passes" not in one)
    page = (FOLDER / "README.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| 2000 x 50000,")]
    assert rows
    assert all("above what the imports take" in row or "passes over the scores" in row for row in rows)
