"""Sweeps: what is not done is done once, whatever ends workers, drivers and runs."""

import errno
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from begun_sweeps import assert_released, begin_sweep, end_sweep
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.files import said_of
from calibrant_lab.sweep import engines
from calibrant_lab.sweep.display import Estimates
from calibrant_lab.sweep.engines import ENGINES, Ended, Ends, Function, Pool, Serial, build_engine
from calibrant_lab.sweep.store import Store, places
from calibrant_lab.sweep.sweep import Watcher, attempt, sweep
from calibrant_lab.sweep.tasks.task import Item
from toy_task import Toy, toys


def test_what_is_done_is_not_done_again(tmp_path) -> None:
    store, log = Store(tmp_path / "store"), tmp_path / "log"
    first = toys(seed=[0, 1], log=[str(log)])
    both = toys(seed=[0, 1, 2], how=["well"], log=[str(log)])
    assert sweep(first, store, Serial()).statuses == {"finished": 2}
    report = sweep(both, store, Serial())
    assert (report.total, report.done_here, report.statuses, report.failed) == (3, 1, {"finished": 3}, 0)
    assert Counter(log.read_text().splitlines()).most_common(1)[0][1] == 1


@pytest.mark.parametrize("content", ["", '{"format": 1}', "[]"])
def test_a_damaged_result_is_done_again(tmp_path, content) -> None:
    store, log = Store(tmp_path / "store"), tmp_path / "log"
    items = toys(seed=[0, 1], log=[str(log)])
    sweep(items, store, Serial())
    (tmp_path / "store" / "runs" / items[1].run / "result.json").write_text(content)
    with pytest.warns(CalibrantWarning, match=rf"{items[1].run}.result\.json is not the result of a run"):
        report = sweep(items, store, Serial())
    assert (report.done_here, report.statuses) == (1, {"finished": 2})
    assert len(log.read_text().splitlines()) == 3


def test_a_pool_replaces_workers_that_die(tmp_path) -> None:
    """A run whose worker dies is tried again, three times at most; all others are done once."""
    store, log, notes = Store(tmp_path / "store"), tmp_path / "log", Mock(spec=Watcher)
    hows = ["well", "fails", "dies once", "dies", "diverges"]
    items = toys(how=hows, seed=[0], log=[str(log)])
    report = sweep(items, store, Pool(jobs=2), watcher=notes)
    assert report.statuses == {"finished": 2, "failed": 2, "diverged": 1}
    reasons = {each.settings["how"]: each.reason for each in store.results(status="failed")}
    assert reasons["dies"].startswith("its process was ended by SIGKILL")
    assert reasons["dies"].endswith("It was tried 3 times.")
    assert len(log.read_text().splitlines()) == 3 + 2 + 3
    ends = Counter(call.args[0].state for call in notes.ended.call_args_list)
    assert ends == {"done": 5, "died": 3}
    assert {result.value("square") for result in store.results()} == {1.0}


def test_a_pool_replaces_workers_that_are_killed_between_runs(tmp_path) -> None:
    """However soon that is noticed, at most one try of the next run is lost."""
    engine, killed = Pool(jobs=1), list[int | None]()

    class Killing(Watcher):
        """Kills the worker of each run once it is done."""

        def ended(self, end: Ended) -> None:
            if end.state == "done" and len(killed) < 2:
                process = engine._seats[0].process
                process.kill()
                process.join()
                killed.append(process.pid)

    report = sweep(toys(seed=[0, 1, 2]), Store(tmp_path / "store"), engine, watcher=Killing())
    assert report.statuses == {"finished": 3}
    assert len(set(killed)) == 2


def test_a_full_disk_ends_the_sweep(tmp_path, monkeypatch) -> None:
    """It is no result of a run, even if there is room for one; the sweep ends and names the store."""
    store = Store(tmp_path / "store")

    def full(*_: object) -> None:
        with said_of("recipe.toml", "written"):
            raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    monkeypatch.setattr(Toy, "run", full)
    with pytest.raises(OSError, match=r"store: recipe\.toml cannot be written: No space .* Make room, and"):
        sweep(toys(seed=[0]), store, Serial())
    monkeypatch.setattr(Toy, "run", lambda *_: {}["torch's own words"])
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(OSError, match=r"store: No space left on device\. Make room, and"):
        sweep(toys(seed=[0]), store, Serial())
    assert store.leases.held() == {}
    assert list(store.results(status=None)) == []


def test_a_sweep_waits_for_runs_of_another(tmp_path, monkeypatch) -> None:
    store, notes = Store(tmp_path / "store"), Mock(spec=Watcher)
    items = toys(seed=[0, 1])
    lease = store.claim(items[0].run)

    def released(_seconds: float) -> None:
        store.leases.clear(items[0].run, up_to=9)

    monkeypatch.setattr(
        "calibrant_lab.sweep.sweep.time", SimpleNamespace(sleep=released, monotonic=time.monotonic)
    )
    assert lease is not None
    assert sweep(items, store, Serial(), watcher=notes).statuses == {"finished": 2}
    notes.waiting.assert_called_once_with(1)


def test_cores_are_divided(monkeypatch) -> None:
    """As many runs at once as there are cores for their threads, GPUs for those that use one, and runs."""
    monkeypatch.setattr("calibrant._math.machine.available_cores", lambda: 8)
    monkeypatch.setattr("calibrant._math.machine.available_gpus", lambda: 5)

    def jobs(pool: Pool, count: int = 20) -> int:
        pool.prepare(toys(seed=list(range(count))))
        return pool.at_once

    assert jobs(Pool()) == 8
    assert jobs(Pool(), 4) == 4
    assert jobs(Pool(jobs=9)) == 9
    monkeypatch.setattr(Toy, "needs_gpu", lambda *_: True)
    assert jobs(Pool()) == 5
    assert jobs(Pool(jobs=7)) == 7
    monkeypatch.undo()
    monkeypatch.setattr("calibrant._math.machine.available_cores", lambda: 8)
    monkeypatch.setattr(Toy, "threads", lambda *_: 3)
    assert jobs(Pool()) == 2


@pytest.mark.parametrize(("seen", "dealt"), [("", ["0", "1", "0"]), ("4,7", ["4", "7", "4"])])
def test_gpus_are_dealt_out(monkeypatch, seen, dealt) -> None:
    """Each worker sees one of those that this process sees, however many workers were asked for."""
    given: list[dict[str, str]] = []

    class Seat:
        def __init__(self, environment: dict[str, str], threads: int) -> None:
            _ = threads
            given.append(environment)
            self.future: Future[Ends] = Future()

        def submit(self, *_: object) -> Future[Ends]:
            return self.future

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    monkeypatch.setattr(engines.workers, "available_gpus", lambda: 2)
    monkeypatch.setattr(engines, "_Seat", Seat)
    monkeypatch.setattr(Toy, "needs_gpu", lambda *_: True)
    engine, items = Pool(jobs=3), toys(seed=[0, 1, 2])
    engine.prepare(items)
    for item in items:
        engine.submit(attempt, "store", item)
    assert [each["CUDA_VISIBLE_DEVICES"] for each in given] == dealt
    assert {each["OMP_NUM_THREADS"] for each in given} == {"1"}


class Threaded(Serial):
    """Any executor of :mod:`concurrent.futures` makes an engine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.executor = ThreadPoolExecutor(1)

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        return self.executor.submit(function, store, *items)

    def shutdown(self) -> None:
        self.executor.shutdown()


def test_how_far_runs_are_is_found_in_their_leases(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(places, "_NOTE_EVERY", 0.02)
    store, notes = Store(tmp_path / "store"), Mock(spec=Watcher)
    items = toys(seed=[0], steps=[10], seconds=[0.05])
    assert sweep(items, store, Threaded(), watcher=notes).statuses == {"finished": 1}
    told = [call.args for call in notes.progress.call_args_list]
    shares = [share for _, share, _ in told]
    assert shares == sorted(shares)
    assert len({0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9} & set(shares)) > 3
    assert {words for run, share, words in told if run and share == 0.5} <= {"step 5"}
    assert store.place.names("leases") == []


def test_a_worker_that_is_told_to_end_as_it_starts_is_silent(monkeypatch) -> None:
    """Until it is ready the system ends it; afterwards it leaves by itself, each without an error."""
    steps: list[str] = []
    for module, name in ((os, "setsid"), (engines.workers, "pin_threads"), (engines, "_follow_driver")):
        monkeypatch.setattr(module, name, lambda *_, name=name: steps.append(name), raising=False)
    handlers: dict[int, Callable[..., None]] = {}

    def set_handler(number: int, handler: Callable[..., None]) -> None:
        steps.append(signal.Signals(number).name)
        handlers[number] = handler

    monkeypatch.setattr(signal, "signal", set_handler)
    engines._begin(1)
    assert (sorted(steps[:-1]), steps[-1]) == (["_follow_driver", "pin_threads", "setsid"], "SIGTERM")
    with pytest.raises(SystemExit, match=r"^$"):
        handlers[signal.SIGTERM](signal.SIGTERM, None)


def test_engines_by_name() -> None:
    assert {name: type(build_engine(name)) for name in ENGINES} == ENGINES
    assert build_engine("pool", jobs=3).jobs == 3
    with pytest.raises(InputError, match="`jobs` must be at least 1; got 0"):
        build_engine("pool(jobs=0)")


def test_estimates_prefer_the_likest_runs() -> None:
    """The same but for the seed; else the same size; else any; nothing known, nothing said."""

    class Sized(Toy):
        costly = ("value",)

    estimates = Estimates(Sized())
    assert estimates.left(toys(seed=[0]), 1) is None
    estimates.note({"value": 1, "how": "a", "seed": 0}, 10.0)
    estimates.note({"value": 1, "how": "b", "seed": 0}, 20.0)
    estimates.note({"value": 2, "how": "a", "seed": 0}, 60.0)
    assert estimates.seconds({"value": 1, "how": "b", "seed": 9}) == 20.0
    assert estimates.seconds({"value": 1, "how": "c", "seed": 9}) == 15.0
    assert estimates.seconds({"value": 3, "how": "c", "seed": 9}) == 30.0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_ends_takes_its_workers_with_it_and_loses_nothing(tmp_path, number) -> None:
    """What is finished stays and is not done again; what was begun is begun again by the next sweep."""
    store, log = Store(tmp_path / "store"), tmp_path / "log"
    process = begin_sweep(tmp_path, seed=list(range(6)), log=[str(log)], seconds=[0.15])
    end_sweep(process, number, log, after=4)
    assert_released(store)
    done = store.done()
    assert len(done) >= 2
    items = toys(seed=list(range(6)), log=[str(log)])
    assert sweep(items, store, Serial()).statuses == {"finished": 6}
    starts = Counter(line.split()[1] for line in log.read_text().splitlines())
    assert all(starts[str(item.settings["seed"])] == 1 for item in items if item.run in done)
    assert {store.result(item.run).value("square") for item in items} == {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
