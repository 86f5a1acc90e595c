"""Downloads: checked, continued, and never half taken for the whole."""

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

CONTENT = bytes(range(256)) * 40


class Server(ThreadingHTTPServer):
    """Serves one content under any path; can break off, refuse ranges, or serve something else."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.stops_after, self.knows_ranges = CONTENT, len(CONTENT), True
        self.asked: list[str | None] = []

    def remote(self, file: str = "a.bin") -> Remote:
        return Remote(
            f"http://127.0.0.1:{self.server_port}/{file}", f"md5:{hashlib.md5(CONTENT).hexdigest()}"
        )


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        """Answer with the content, or the rest of it."""
        wanted = self.headers["Range"]
        self.server.asked.append(wanted)
        first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.knows_ranges else 0
        rest = self.server.content[first:]
        if self.path.endswith("missing"):
            self.send_error(404)
        elif first and not rest:
            self.send_error(416)
        else:
            self.send_response(206 if first else 200)
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            self.wfile.write(rest[: self.server.stops_after])

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


def held(folder: Path) -> set[str]:
    """The names of the files in a folder, which need not be there."""
    return {path.name for path in folder.glob("*")}


def test_a_download_is_kept_and_not_repeated(server, tmp_path) -> None:
    """It has its name once it is whole, beside nothing else; a second one asks nothing."""
    for _ in range(2):
        path = fetch.download(server.remote(), tmp_path / "set")
        assert path.read_bytes() == CONTENT
        assert held(tmp_path / "set") == {"a.bin"}
    assert server.asked == [None]


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_an_interrupted_download_is_continued(server, tmp_path, monkeypatch, knows_ranges) -> None:
    """What has come is kept apart; the next attempt asks for the rest, or begins anew where it cannot."""
    monkeypatch.setattr(fetch, "_BLOCK", 1000)
    server.stops_after, server.knows_ranges = 3000, knows_ranges
    refused("cannot be downloaded", fetch.download, server.remote(), tmp_path)
    assert held(tmp_path) == {"a.bin.part"}
    done = (tmp_path / "a.bin.part").stat().st_size
    assert 0 < done <= 3000
    server.stops_after = len(CONTENT)
    assert fetch.download(server.remote(), tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, f"bytes={done}-"]
    assert held(tmp_path) == {"a.bin"}


@pytest.mark.parametrize("left", [b"x" * 3000, b"x" * 99_999])
def test_a_part_of_something_else_is_dropped(server, tmp_path, left) -> None:
    """Where what was left does not go with the rest, or is too long, the download begins anew."""
    (tmp_path / "a.bin.part").write_bytes(left)
    assert fetch.download(server.remote(), tmp_path).read_bytes() == CONTENT
    assert held(tmp_path) == {"a.bin"}


def test_other_content_than_published_is_not_kept(server, tmp_path) -> None:
    """A wrong checksum is one sentence, and nothing is left behind; nor after an answer of 404."""
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
