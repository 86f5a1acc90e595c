"""The store: what names a run, what finishes it, what is read back."""

import json
import os
import time
from collections.abc import Callable, Iterator
from unittest.mock import Mock

import pytest

from calibrant._math.errors import CalibrantWarning, InputError
from calibrant_lab.sweep.engines import Serial
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.store import Store, places
from calibrant_lab.sweep.sweep import perform, sweep
from calibrant_lab.sweep.tasks.task import Fingerprints, RunResult, run_name, state_of
from calibrant_lab.sweep.tasks.training import Training
from toy_task import Toy, toys


@pytest.fixture(params=["folder", "memory"])
def store(request, tmp_path, monkeypatch) -> Store:
    """A store in a folder, or on what stands for an object store."""
    monkeypatch.setenv("CALIBRANT_SCRATCH", str(tmp_path / "scratch"))
    return Store(tmp_path / "store" if request.param == "folder" else f"memory://{tmp_path.name}")


def do(store: Store, **axes: list) -> list[RunResult]:
    items = toys(**axes)
    for item in items:
        assert perform(store.address, item).state == "done"
    return [store.result(item.run) for item in items]


def test_a_result_is_read_back(store) -> None:
    """Settings, axes, numbers and rows come back; what is not finite is None; a README says what is there."""
    (found,) = do(store, value=[3.0])
    assert (found.status, found.value("square"), found.value("nothing")) == ("finished", 9.0, None)
    assert (found.axes, found.settings["how"], found.rows) == ({"value": 3.0}, "well", [{"epoch": 1}])
    assert "result.json" in found.file("README.txt").read_text(encoding="utf-8")
    files = ["README.txt", "result.json", "steps"]
    assert store.sizes()[found.run] == sum(found.file(name).stat().st_size for name in files)
    assert (found.sessions, store.unfinished()) == (1, {})
    with pytest.raises(FileNotFoundError, match=r"holds no predictions\.npz"):
        found.file("predictions.npz")


def test_results_are_chosen_by_settings_status_and_task(store) -> None:
    do(store, value=[1.0, 2.0], how=["well", "fails", "diverges", "breaks"])
    assert len(list(store.results())) == 2
    assert [each.value("square") for each in store.results({"value": [2, 5], "how": "w*"})] == [4.0]
    found = {(each.settings["how"], each.status, each.reason) for each in store.results(status=None)}
    failed = {
        ("fails", "failed", "it cannot be done."),
        ("breaks", "failed", "RuntimeError: something broke"),
    }
    assert found == failed | {("well", "finished", None), ("diverges", "diverged", "it left all bounds.")}
    assert not list(store.results(task="training", status=None))


def test_a_done_run_is_not_done_again(store, tmp_path) -> None:
    log = tmp_path / "log"
    first, second = do(store, log=[str(log)]), do(store, log=[str(log)])
    assert first == second
    assert len(log.read_text().splitlines()) == 1


def test_a_run_that_is_held_is_left_alone(store) -> None:
    (item,) = toys(value=[1.0])
    with store.claim(item.run):
        assert perform(store.address, item).state == "held"
        assert list(store.unfinished()) == [item.run]
        assert not store.abandon(item.run)
    assert store.leases.held() == {}
    assert perform(store.address, item).state == "done"


def test_the_lease_of_a_dead_process_is_taken_over(store, monkeypatch) -> None:
    """A process that is gone, or another machine that is silent, holds nothing; a live one does."""
    lease = store.claim("run")
    pid = os.getpid()
    monkeypatch.setattr(places, "_is_alive", lambda number: number != pid)
    again = store.claim("run")
    assert again.name != lease.name
    monkeypatch.undo()
    assert store.claim("run") is None
    monkeypatch.setattr(places, "_machine", lambda: "another")
    assert store.claim("run") is None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + places.EXPIRY + 1)
    assert store.claim("run") is not None


def test_a_holder_that_was_succeeded_is_told(store, monkeypatch) -> None:
    """A lease is renewed as long as nobody has taken the run over; then its holder is told once."""
    told: list[str] = []
    lease = store.claim("run", lost=lambda: told.append("lost"))
    later = time.time() + places.EXPIRY + 1
    monkeypatch.setattr(time, "time", lambda: later)
    lease.renew()
    assert store.leases.held()["run"].time == later
    monkeypatch.setattr(places, "_is_alive", lambda _number: False)
    assert store.claim("run") is not None
    lease.renew()
    lease.renew()
    assert told == ["lost"]


@pytest.mark.parametrize("given_back", [False, True])
def test_only_one_takes_over(store, monkeypatch, given_back) -> None:
    """Whoever is late withdraws, also if the other has given the run back; then nothing is left behind."""
    store.claim("run")
    monkeypatch.setattr(places, "_is_alive", lambda _number: False)
    create = store.place.create

    def late(name: str, content: bytes) -> bool:
        if given_back:
            store.leases.clear("run", up_to=9)
        else:
            assert create(name, content)
        return create(name, content)

    monkeypatch.setattr(store.place, "create", late)
    assert store.claim("run") is None
    assert (store.place.names("leases") == []) is given_back


def test_killed_between_result_and_rename_it_is_finished_by_the_next(store, tmp_path, monkeypatch) -> None:
    log = tmp_path / "log"
    (item,) = toys(log=[str(log)])
    monkeypatch.setattr(type(store), "publish", Mock(side_effect=GeneratorExit))  # which nothing catches
    with pytest.raises(GeneratorExit, match=r"^$"):
        perform(store.address, item)
    monkeypatch.undo()
    assert item.run not in store
    monkeypatch.setenv("CALIBRANT_SCRATCH", str(tmp_path / "scratch"))
    assert perform(store.address, item).state == "done"
    assert len(log.read_text().splitlines()) == 1


def test_removing(store) -> None:
    """A removed run is gone from the index too; the result cannot be removed alone."""
    first, second = do(store, value=[1.0, 2.0])
    assert len(list(store.results())) == 2
    with pytest.raises(InputError, match="remove the run instead"):
        store.remove_file(first.run, "result.json")
    store.remove_file(first.run, "README.txt")
    store.remove(second.run)
    assert [each.run for each in store.results()] == [first.run]
    assert store.done() == {first.run}


def test_the_index_follows_the_results(store) -> None:
    """It is made again when it is lost, cut off or of another format, and when a result has changed."""
    (found,) = do(store, value=[2.0])
    list(store.results())
    for damage in (b"", b'{"format": 0}\n{}\n', store.place.read("index.jsonl")[:-40]):
        store.place.write("index.jsonl", damage)
        assert [each.value("square") for each in Store(store.address).results()] == [4.0]
    name = f"runs/{found.run}/result.json"
    content = json.loads(store.place.read(name)) | {"metrics": {"result": {"square": 5.0}}}
    store.place.write(name, (json.dumps(content) + " ").encode())
    assert [each.value("square") for each in store.results()] == [5.0]


def test_a_damaged_result_is_named(store) -> None:
    """A file that is no result is not passed over in silence, nor does it hide the others."""
    other, found = do(store, value=[1.0, 2.0])
    store.place.write(f"runs/{found.run}/result.json", b'{"format": 99}')
    with pytest.raises(InputError, match=r"is of format 99; this version of calibrant reads format 1\."):
        store.result(found.run)
    store.place.write(f"runs/{found.run}/result.json", b"{}")
    said = rf"{found.run}/result\.json is not the result of a run, so it is left out; the next sweep does"
    with pytest.raises(InputError, match=said):
        store.result(found.run)
    with pytest.warns(CalibrantWarning, match=said):
        assert [each.run for each in store.results()] == [other.run]
    assert [each.run for each in store.results()] == [other.run]  # it is said once


def test_no_store(tmp_path) -> None:
    with pytest.raises(InputError, match="is not a store of runs"):
        Store(tmp_path, create=False)
    with pytest.raises(InputError, match=r"nonsense://x cannot be used"):
        Store("nonsense://x")


def training_name(**settings: object) -> str:
    point = Grid.read({"axes": {key: [value] for key, value in settings.items()}}).points[0]
    return run_name(Training(), point.settings, {"data": "0"})


def test_what_decides_the_numbers_names_the_run() -> None:
    """Where it runs and what is not measured make no other run; precision and the number of processes do."""
    name = training_name(seed=0)
    cosmetic = {"hardware.threads": 2, "hardware.accelerator": "cpu", "evaluation.bootstrap": 7}
    cosmetic["record.every"] = 2
    assert {training_name(**{key: value}) for key, value in cosmetic.items()} == {name}
    deciding = {"seed": 1, "training.precision": "64-true", "hardware.devices": 2, "evaluation.num_bins": 10}
    for key, value in {**deciding, "record.dynamics": True}.items():
        assert training_name(**{key: value}) != name, key
    assert run_name(Training(), Grid.read({"axes": {"seed": [0]}}).points[0].settings, {"data": "1"}) != name


def test_another_version_is_another_run(monkeypatch) -> None:
    (before,) = toys(value=[1.0])
    monkeypatch.setattr(Toy, "version", 2)
    assert toys(value=[1.0])[0].run != before.run


def test_fingerprints_are_kept_until_files_change(tmp_path) -> None:
    path, computed, kept = tmp_path / "data", [], {}
    path.write_text("a")

    def compute() -> str:
        computed.append(path.read_text())
        return computed[-1]

    def get() -> str:
        return Fingerprints(kept, kept.update).get([state_of([tmp_path])], compute)

    assert (get(), get(), len(computed)) == ("a", "a", 1)
    path.write_text("bc")
    assert (get(), len(computed)) == ("bc", 2)


@pytest.fixture
def machines(tmp_path, monkeypatch) -> Callable[[str], Store]:
    """A store on what stands for an object store, as seen from machines that share nothing else."""

    def seen_from(name: str) -> Store:
        monkeypatch.setenv("CALIBRANT_SCRATCH", str(tmp_path / name))
        return Store(f"memory://{tmp_path.name}")

    return seen_from


def test_another_machine_goes_on_with_what_was_saved(machines, tmp_path, monkeypatch) -> None:
    """A run whose machine is lost is resumed from its last save, of which nothing stays in the end."""
    for name, value in {"_KEEP_EVERY": 0.0, "_KEEPING": 1e9}.items():  # at each step
        monkeypatch.setattr(f"calibrant_lab.sweep.store.store.{name}", value)
    (item,) = toys(steps=[5], log=[str(tmp_path / "log")])
    lost = machines("one")

    def stops(share: float, _words: str) -> None:
        session.go_on()
        if share >= 0.6:
            raise RuntimeError("the machine is lost")

    session = lost.begin(item.run)
    with pytest.raises(RuntimeError, match="the machine is lost"):
        item.task.run(item.settings, session.folder, stops)
    (session.folder / "steps").write_bytes(b"xxxx")  # done, and not saved

    other = machines("two")
    assert list(other.unfinished()) == [item.run]
    told: list[float] = []
    monkeypatch.setattr(places.Lease, "note", lambda _lease, share, _words: told.append(share))
    perform(other.address, item)
    assert told == [0.8, 1.0]
    result = other.result(item.run)
    assert (result.sessions, result.value("square")) == (2, 1.0)
    assert other.place.names("work") == []
    assert other.unfinished() == {}


def test_the_machine_that_did_more_of_a_run_keeps_its_own(machines) -> None:
    """What lies here is replaced by a save only where more time went into that; pruning removes both."""
    (item,) = toys()
    store = machines("one")
    session = store.begin(item.run)
    session.keep()
    (session.folder / "steps").write_bytes(b"x")
    time.sleep(0.01)
    session.spend()
    assert (store.begin(item.run).folder / "steps").read_bytes() == b"x"
    assert not (machines("two").begin(item.run).folder / "steps").exists()
    assert machines("one").abandon(item.run)
    assert machines("three").unfinished() == {}


def test_a_save_that_fails_costs_nothing_but_itself(machines, monkeypatch) -> None:
    store = machines("one")
    session = store.begin("run")
    monkeypatch.setattr(store.place._system, "put_file", Mock(side_effect=OSError("gone")))
    session.keep()
    assert store.place.names("work") == []


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[str]:
    """A bucket of a server in this process."""
    server = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    thread = server.ThreadedMotoServer(port=0, verbose=False)
    thread.start()
    host, port = thread.get_host_and_port()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("CALIBRANT_SCRATCH", str(tmp_path / "scratch"))
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().makedirs("bucket", exist_ok=True)
    yield f"s3://bucket/{tmp_path.name}"
    thread.stop()


@pytest.mark.slow
def test_a_sweep_into_a_bucket(address, tmp_path, monkeypatch) -> None:
    """Runs are done once, read back through the index, and removed; leases exclude one another."""
    store, log = Store(address), tmp_path / "log"
    items = toys(seed=[0, 1, 2], how=["well", "fails"], log=[str(log)])
    assert sweep(items, store, Serial()).statuses == {"finished": 3, "failed": 3}
    assert sweep(items, Store(address), Serial()).done_here == 0
    assert len(log.read_text().splitlines()) == 6
    assert sorted(each.value("square") for each in Store(address).results()) == [1.0, 2.0, 3.0]
    lease = store.claim("run")
    assert lease is not None
    assert store.claim("run") is None
    with lease:
        assert "run" in store.leases.held()
    assert store.leases.held() == {}
    assert sum(store.sizes().values()) > 6 * 500
    store.remove(items[0].run)
    assert store.done() == {item.run for item in items[1:]}
    # What a machine saved of a run is there on another, and gone when the run is abandoned.
    session = store.begin(items[0].run)
    (session.folder / "checkpoint.pt").write_bytes(b"half of it")
    session.keep()
    monkeypatch.setenv("CALIBRANT_SCRATCH", str(tmp_path / "another"))
    other = Store(address)
    assert list(other.unfinished()) == [items[0].run]
    assert (other.begin(items[0].run).folder / "checkpoint.pt").read_bytes() == b"half of it"
    assert other.abandon(items[0].run)
    assert other.unfinished() == {}
