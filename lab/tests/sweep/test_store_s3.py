"""A store on an S3-compatible server, whose exclusive creation is that of the real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calibrant_lab.sweep.engines import Serial
from calibrant_lab.sweep.store import Store
from calibrant_lab.sweep.sweep import sweep
from toy_task import toys

pytestmark = pytest.mark.slow


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Iterator[str]:
    """A bucket of a server in this process."""
    server = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    thread = server.ThreadedMotoServer(port=0, verbose=False)
    thread.start()
    host, port = thread.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "CALIBRANT_SCRATCH": str(tmp_path / "scratch"),
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().makedirs("bucket", exist_ok=True)
    yield f"s3://bucket/{tmp_path.name}"
    thread.stop()


def test_a_sweep_into_a_bucket(address, tmp_path) -> None:
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
        assert store.leases.holder("run") is not None
    assert store.leases.held() == {}
    assert sum(store.sizes().values()) > 6 * 500
    store.remove(items[0].run)
    assert store.done() == {item.run for item in items[1:]}


def test_another_machine_goes_on(address, tmp_path, monkeypatch) -> None:
    """What a machine saved of a run is there on another, and gone when the run is abandoned."""
    (item,) = toys()
    session = Store(address).begin(item.run)
    (session.folder / "checkpoint.pt").write_bytes(b"half of it")
    session.keep()
    monkeypatch.setenv("CALIBRANT_SCRATCH", str(tmp_path / "another"))
    other = Store(address)
    assert list(other.unfinished()) == [item.run]
    assert (other.begin(item.run).folder / "checkpoint.pt").read_bytes() == b"half of it"
    assert other.abandon(item.run)
    assert other.unfinished() == {}
