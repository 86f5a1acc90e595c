"""Runs done again: which, and what is said where a number differs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from calibrant_lab.sweep.kept_runs import KeptRun, runs_in
from papers.linear_model import LINEAR_MODEL
from papers.linear_model.settings import Setting
from papers.repeats import (
    apart,
    between_devices,
    errors,
    page_of_repeats,
    repeated_runs,
    sample_of,
    takes_place_of,
)
from papers.study import Session

SMALL = Setting(num_samples=80, num_test=400, learning_rate=0.5)
RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_one_in_fifty_and_one_at_least() -> None:
    """Every fiftieth run is done again, evenly spread; of a few runs one is."""
    assert [len(sample_of(runs)) for runs in (1, 50, 51, 300)] == [1, 1, 2, 6]
    assert all(0 <= place < runs for runs in (1, 2, 51, 149) for place in sample_of(runs))


def test_every_number_counts_but_times() -> None:
    """A number that changed or is gone is unequal, wherever it stands; times are not compared."""
    found = {"cpu_seconds": 3.0, "stages": {"before": {"ece": 0.1, "nll": 0.4}}, "norms": [1.0, 2.0]}
    assert apart(found, {**found, "cpu_seconds": 9.0})["unequal"] == 0
    again = {"cpu_seconds": 3.0, "stages": {"before": {"ece": 0.3, "nll": 0.4}}, "norms": [1.0]}
    said = apart(found, again)
    assert (said["numbers"], said["unequal"]) == (4, 2)
    assert said["largest"] == {"name": "stages.before.ece", "found": 0.1, "again": 0.3}


def test_the_page_is_that_of_the_committed_repetitions() -> None:
    """The page is written from its file, and counts the runs that did not give every number again."""
    rows = json.loads((RESULTS / "repeats.json").read_text(encoding="utf-8"))
    assert (RESULTS / "repeats.md").read_text(encoding="utf-8") == page_of_repeats(rows)
    equal = sum(row["unequal"] == 0 for row in rows)
    assert f"{equal} of {len(rows)} repetitions gave every number again" in page_of_repeats(rows)


def row(unequal: int | None, made: dict[str, Any] | None = None, **also: Any) -> dict[str, Any]:
    """A run done again with calibrant 2."""
    here = {"calibrant": "2", "torch": "2.13", "instructions": "AVX2", "processor": "A 1"}
    about = {"page": "one", "settings": {"seed": 3}, "of": 40, "cpu_seconds": 1.0, "numbers": 9}
    found = {"unequal": unequal, "largest": None, "error": None}
    return {**about, "made": here if made is None else made, "here": here, **found, **also}


def test_a_failed_repetition_is_not_equal() -> None:
    """It is named with its settings, and counted neither as equal nor as different."""
    text = page_of_repeats([row(0), row(None)])
    assert (
        "1 of 2 repetitions gave every number again. 1 gave no numbers when done again: one, seed = 3."
        in text
    )
    assert "| 40 | 2 | 1 |" in text
    assert "gave others" not in text


def test_recorded_and_not_recorded_versions_are_told_apart() -> None:
    """Only of what is not recorded it is said that the reason cannot be told; versions stand by page."""
    older = {"calibrant": "1", "torch": "2.13", "instructions": "AVX2", "processor": "A 1"}
    text = page_of_repeats([row(4, older), row(0, here={**older, "calibrant": "3"}, page="two")])
    assert "1 gave others and were made by other versions or processors." in text
    assert "not recorded" not in text
    assert "| 1 2.13 AVX2 A 1 | 2 2.13 AVX2 A 1 |" in text
    assert "| 2 2.13 AVX2 A 1 | 3 2.13 AVX2 A 1 |" in text
    assert "1 gave others and were made by versions or on a processor" in page_of_repeats([row(4, {})])
    assert "1 gave others with the same versions and processor, which is a fault" in page_of_repeats([row(4)])


def test_the_error_stands_beside_that_of_other_seeds() -> None:
    """Of runs that differ in nothing but the seed."""
    runs = [
        KeptRun(settings={"seed": seed, "loss": loss}, found={"stages": {"before": {"error": seed / 100}}})
        for seed in (1, 3)
        for loss in ("brier", "mmce")
    ]
    found = errors(runs[0], {"stages": {"before": {"error": 0.02}}}, runs)
    assert found == {"found": 0.01, "again": 0.02, "deviation": pytest.approx(0.0141), "seeds": 2}
    assert "| 1.00, 2.00 (1.41, 2 seeds) |" in page_of_repeats([row(4, error=found)])


@pytest.mark.parametrize("page", ["sum-or-mean", "sst"])
def test_repeated_runs_are_in_results_files_that_grow(page: str) -> None:
    """Each is found by its settings; more runs may have come since."""
    content = json.loads((RESULTS / f"{page}.json").read_text(encoding="utf-8"))
    kept = json.loads((RESULTS / "repeats.json").read_text(encoding="utf-8"))
    runs = [each.settings.items() for each in runs_in(content)]
    for each in (one for one in kept if one["page"] == page):
        assert each["of"] <= len(runs)
        assert sum(each["settings"].items() <= settings for settings in runs) == 1, each


def test_seeds_on_a_gpu_and_on_a_cpu_are_seeds_of_one_setting() -> None:
    """Where a run was made decides nothing of what its seeds are compared with."""
    runs = [
        KeptRun(settings={"seed": seed, "hardware.accelerator": where}, found={"error": seed / 100})
        for seed, where in ((1, "cpu"), (2, "cuda"), (3, "cuda"))
    ]
    found = errors(runs[0], {"error": 0.02}, runs)
    assert found is not None
    assert found["seeds"] == 3


def test_a_gpu_is_held_against_a_cpu_by_the_mean_over_runs() -> None:
    """Error and ECE in points, the temperature as it is; with one run nothing is said."""
    kept = {"stages": {"before": {"error": 0.3, "ece": 0.1}}, "parameters": {"temperature": 1.5}}
    again = {"stages": {"before": {"error": 0.32, "ece": 0.1}}, "parameters": {"temperature": 1.4}}
    pairs = between_devices(kept, again)
    rows = [row(4, {"device": "a GPU"}, devices=pairs)] * 2
    text = page_of_repeats(rows)
    assert "the error by +2.00 ± 0.00 points (n = 2), the ECE by +0.00 ± 0.00 points (n = 2) and the" in text
    assert "likeliest temperature by -0.100 ± 0.000 (n = 2)" in text
    assert "made on a GPU" not in page_of_repeats(rows[:1])


def test_a_run_done_again_elsewhere_stays_beside_it() -> None:
    """The same run on the same processor takes the old row's place, whatever else its settings tell."""
    old, new = row(0), row(0, settings={"seed": 3, "hardware.threads": 1})
    assert takes_place_of(new, old)
    assert not takes_place_of(row(0, here={"processor": "B 1"}), old)
    assert not takes_place_of(row(0, settings={"seed": 4}), old)
    text = page_of_repeats([old, row(4, here={**old["here"], "processor": "B 1"})])
    assert "recorded: 1 of 1 on A 1 and 0 of 1 on B 1." in text
    assert "1 of these runs gave every number on another model of processor." in text
    assert "of these runs" not in page_of_repeats([row(0, settings={"seed": 4}), row(4)])


def test_runs_are_done_again_and_found_the_same(tmp_path: Path) -> None:
    """Of a small study all are; what a GPU made is done on a CPU, and only where the store has it."""
    session, small = Session(tell=lambda _: None), {"settings": {**asdict(SMALL), "iterations": 30}}
    LINEAR_MODEL.run(session, small, out=tmp_path / "a", seeds=2, table=None)
    (found,) = repeated_runs(LINEAR_MODEL, LINEAR_MODEL.pages[0], tmp_path / "a", tmp_path / "store")
    assert (found["unequal"], found["of"], found["settings"]) == (0, 2, {"seed": 1})
    assert "devices" not in found
