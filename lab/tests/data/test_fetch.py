"""Downloads: checked, and never half taken for the whole."""

import gc
import gzip
import hashlib
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from calibrant._math.errors import InputError
from calibrant_lab import data
from calibrant_lab.data import fetch
from calibrant_lab.data.fetch import Remote
from refusals import not_loaded, refused
from set_files import idx

pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")

CONTENT = bytes(range(256)) * 40


class Server(ThreadingHTTPServer):
    """Serves one content under any path; can break off, or serve something else."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.stops_after = CONTENT, len(CONTENT)
        self.asked: list[str] = []

    def remote(self, file: str = "a.bin") -> Remote:
        return Remote(
            f"http://127.0.0.1:{self.server_port}/{file}", f"md5:{hashlib.md5(CONTENT).hexdigest()}"
        )


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        """Answer with the content."""
        self.server.asked.append(self.path)
        if self.path.endswith("missing"):
            self.send_error(404)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.server.content)))
            self.end_headers()
            self.wfile.write(self.server.content[: self.server.stops_after])

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Generator[Server]:
    pytest.importorskip("pooch")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    gc.collect()  # pooch leaves the connection of a failed download open


def held(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*")}


def test_a_download_is_kept_and_not_repeated(server, tmp_path) -> None:
    """It has its name once it is whole, beside nothing else; a second one asks nothing."""
    for _ in range(2):
        path = fetch.download(server.remote(), tmp_path / "set")
        assert path.read_bytes() == CONTENT
        assert held(tmp_path / "set") == {"a.bin"}
    assert server.asked == ["/a.bin"]


def test_an_interrupted_download_leaves_nothing(server, tmp_path) -> None:
    server.stops_after = 3000
    refused("cannot be downloaded", fetch.download, server.remote(), tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_other_content_than_published_is_not_kept(server, tmp_path) -> None:
    server.content = b"something else"
    words = r"does not hold what was published .* nothing of it was kept"
    refused(words, fetch.download, server.remote(), tmp_path / "set")
    refused("the server answers 404", fetch.download, server.remote("missing"), tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_no_network_is_one_sentence(server, tmp_path) -> None:
    remote = server.remote()
    server.shutdown()
    server.server_close()
    refused(
        r"no connection to the server\); try again, or get .*a.bin", fetch.download, remote, tmp_path / "set"
    )
    assert not (tmp_path / "set").exists()


def test_a_named_set_comes_from_the_cache(server, tmp_path, monkeypatch) -> None:
    """Downloaded where allowed, and from then on read without a network; ``offline`` says what is lacking."""
    server.content = gzip.compress(idx(np.zeros(3, np.uint8)), mtime=0)
    labels = f"md5:{hashlib.md5(server.content).hexdigest()}"
    remotes = [
        Remote(server.remote(f"{word}-labels-idx1-ubyte.gz").url, labels) for word in ("train", "t10k")
    ]
    monkeypatch.setattr(fetch, "remotes", lambda *_, **__: remotes)
    monkeypatch.setenv("CALIBRANT_CACHE", str(tmp_path))
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    monkeypatch.setenv("CALIBRANT_OFFLINE", "0")
    with data.offline(), pytest.raises(InputError, match="but not while offline"):
        data.load("mnist")
    assert not held(tmp_path)
    not_loaded("has no train-images", "mnist")
    assert held(tmp_path / "mnist") == {"train-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz"}
    for word in ("train", "t10k"):
        images = gzip.compress(idx(np.zeros((3, 2, 2), np.uint8)))
        (tmp_path / "mnist" / f"{word}-images-idx3-ubyte.gz").write_bytes(images)
    with data.offline():
        assert data.load("mnist").train.labels.tolist() == [0, 0, 0]
    assert len(server.asked) == 2
