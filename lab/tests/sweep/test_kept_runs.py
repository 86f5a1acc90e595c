"""Results files and stores: which run of several is shown."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from calibrant_lab.sweep.engines import Serial
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.kept_runs import KeptRun, content_of, keep, kept_results, runs_in, united
from calibrant_lab.sweep.store import Store
from calibrant_lab.sweep.sweep import sweep
from calibrant_lab.sweep.tasks.task import RESULT, Outcome, Settings, Task, Tell


class Drawn(Task):
    """A number, of which more may be recorded."""

    name: ClassVar[str] = "drawn"
    version: ClassVar[int] = 1

    def complete(self, settings: Settings) -> Settings:
        return {"seed": 0, "recorded": False, **settings}

    def unrecorded(self, settings: Settings) -> Settings:
        return {**settings, "recorded": False}

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        _ = folder, tell
        return Outcome(metrics={RESULT: {"number": settings["seed"]}})


def grid(seeds: list[int], *, recorded: bool) -> Grid:
    return Grid.read({"settings": {"recorded": recorded}, "axes": {"seed": seeds}}, task=Drawn())


def run(seed: int, *, recorded: bool, ece: float) -> KeptRun:
    return KeptRun(settings={"seed": seed, "recorded": recorded}, found={"ece": ece})


def test_of_two_runs_the_new_one_counts_unless_it_recorded_less() -> None:
    """A store's run takes the place of the committed one; of the same numbers the fuller run stays."""
    plain, fuller, again = (
        run(0, recorded=recorded, ece=ece) for recorded, ece in ((False, 0.1), (True, 0.2), (False, 0.3))
    )
    other = run(1, recorded=False, ece=0.4)
    assert united([plain, other], [again], Drawn()) == [again, other]
    assert united([plain], [fuller, other], Drawn()) == [fuller, other]
    assert united([fuller], [again, other], Drawn()) == [fuller, other]


def test_a_run_that_recorded_less_stands_in(tmp_path) -> None:
    fuller = grid([0, 1], recorded=True)
    assert kept_results(fuller, tmp_path / "nothing") == []
    store = Store(tmp_path)
    sweep(grid([0], recorded=False).items(), store, Serial())
    assert [each.settings["recorded"] for each in kept_results(fuller, tmp_path)] == [False]
    sweep(grid([0, 1], recorded=True).items(), store, Serial())
    assert [each.settings["recorded"] for each in kept_results(fuller, tmp_path)] == [True, True]
    assert len(kept_results(grid([0, 1], recorded=False), tmp_path)) == 1


def test_what_runs_took_is_kept_once(tmp_path) -> None:
    store = Store(tmp_path)
    sweep(grid([0, 1], recorded=False).items(), store, Serial())
    results = kept_results(grid([0, 1], recorded=False), tmp_path)
    first, second = (replace(each, cpu_seconds=90.0) for each in results)
    runs = [keep(first, {"number": 0}, 8), keep(second, {"number": 1}, 8)]
    assert [each.made["cpu_seconds"] for each in runs] == [90.0, 90.0]
    found = keep(second, {"number": 1, "cpu_seconds": 90.0}, 8)
    assert "cpu_seconds" not in found.made


def test_a_gpu_is_kept(tmp_path) -> None:
    store = Store(tmp_path)
    sweep(grid([0, 1, 2], recorded=False).items(), store, Serial())
    machines = [
        {"torch": "2.13", "instructions": "AVX2", "processor": processor, "device": device}
        for processor, device in (("A 1", "NVIDIA H200"), ("B 1", "NVIDIA H200"), ("A 1", "cpu"))
    ]
    results = kept_results(grid([0, 1, 2], recorded=False), tmp_path)
    runs = [
        keep(replace(each, environment=machine), {"number": 0, "cpu_seconds": 1.0}, 8)
        for each, machine in zip(results, machines, strict=True)
    ]
    again = runs_in(content_of(runs, {}))
    assert again == runs
    assert [run.flat.get("device") for run in again] == ["NVIDIA H200", "NVIDIA H200", None]
