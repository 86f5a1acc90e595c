"""What is wrong, or meant to do harm, is refused in one sentence with a status of its own."""

import builtins
import gzip
import io
import os
import pickle
import struct
import tempfile
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from calibrant.web import app
from calibrant.web.forms import EXAMPLE_CSV
from calibrant.web.limits import Limits
from calibrant.web.uploads import Upload
from calibrant.web.work import Answer, predictions_of


def archive(count: int, **arrays: np.ndarray) -> bytes:
    """An ``.npz`` archive with so many empty members beside its arrays."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for number in range(count):
            packed.writestr(f"{number}.npy", b"")
        for name, values in arrays.items():
            array = io.BytesIO()
            np.save(array, values)
            packed.writestr(f"{name}.npy", array.getvalue())
    return content.getvalue()


def two_counts() -> bytes:
    """An archive of fifty members of which the usual record counts one; only the ZIP64 record is true."""
    content = archive(50)
    at = content.rfind(b"PK\x05\x06")
    count, length, start = struct.unpack("<HII", content[at + 10 : at + 20])
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
    return content[:at] + record + locator + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 46, start, 0)


class Runs:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("/nowhere/it-ran",))


def parquet_bomb() -> bytes:
    """A few bytes that stand for millions of equal numbers."""
    import pyarrow as pa
    from pyarrow import parquet

    content, column = io.BytesIO(), pa.array(np.zeros(400_000))
    parquet.write_table(pa.table({"label": column, "prob": column}), content)
    return content.getvalue()


HEADER = b"PK\x05\x06" + bytes(6) + (65535).to_bytes(2, "little") + (2**31).to_bytes(4, "little") + bytes(6)
BOMB = archive(0, logits=np.zeros((5 << 17, 2), np.float64))
HOSTILE: dict[str, tuple[str, bytes, int, str]] = {
    "empty": ("a.csv", b"", 422, "a.csv: the file is empty (0 bytes)."),
    "no ending": ("a", b"x", 422, "a must end in one of .npz"),
    "wrong ending": ("a.exe", b"MZ", 422, "must end in one of"),
    "one array": ("a.npy", b"\x93NUMPY", 422, "must end in one of"),
    "no text": ("a.csv", b"\xff\xfe\0", 422, "not UTF-8"),
    "nul bytes": ("a.csv", b"label,prob\n0,\0\n", 422, "line 2"),
    "endless line": ("a.csv", b"label,prob\n0," + b"1" * 200_000, 422, "is not CSV"),
    "endless header": ("a.csv", b"1" * 200_000, 422, "line 1 is not CSV"),
    "html": ("a.csv", b"<script>alert(1)</script>", 422, "a.csv:"),
    "brackets": ("a.json", b"[" * 100_000, 422, "nests its brackets too deeply"),
    "brackets in lines": ("a.jsonl", b"[" * 100_000, 422, "line 1 nests its brackets too deeply"),
    "numbers": ("a.json", b'{"probs": [1e999], "labels": [0]}', 422, "a.json:"),
    "cut archive": ("a.npz", archive(3)[:60], 422, "cut off"),
    "half an archive": ("a.npz", archive(0, logits=np.zeros((9, 2)))[40:], 422, "a.npz:"),
    "many members": ("a.npz", archive(50), 413, "at most 20 members"),
    "two counts": ("a.npz", two_counts(), 413, "at most 20 members"),
    "promised members": ("a.npz", HEADER, 413, "at most 20 members"),
    "zip bomb": ("a.npz", BOMB, 413, "4 MiB when unpacked"),
    "bomb in disguise": ("a.pt", BOMB, 413, "4 MiB when unpacked"),
    "gzip bomb": ("a.csv.gz", gzip.compress(bytes(8 << 20)), 413, "4 MiB when unpacked"),
    "gzip of gzips": ("a.csv.gz", gzip.compress(bytes(1 << 20)) * 5, 413, "4 MiB when unpacked"),
    "cut gzip": ("a.csv.gz", gzip.compress(EXAMPLE_CSV.encode())[:-12], 422, "a.csv.gz:"),
    "parquet bomb": ("a.parquet", parquet_bomb(), 413, "4 MiB when unpacked"),
    "cut parquet": ("a.parquet", parquet_bomb()[:-20], 422, "damaged"),
    "pickle": ("a.pt", pickle.dumps(Runs()), 422, "pickled objects"),
    "pickle in npz": ("a.npz", archive(0, logits=np.array([Runs()], object)), 422, "could run code"),
    "safetensors": ("a.safetensors", b"\xff" * 7 + b"\x7f" + b"{", 422, "a.safetensors:"),
    "huge shape": ("a.npz", archive(0, logits=np.zeros((1, 1))).replace(b"(1, 1)", b"(9, 9)"), 422, "a.npz:"),
    "path": ("../../etc/cron.d/x.csv", b"label,prob\n2,3\n", 422, "x.csv:"),
    "windows path": ("C:\\windows\\x.csv", b"label,prob\n2,3\n", 422, "x.csv:"),
    "long name": ("x" * 3000 + ".csv", b"label,prob\n2,3\n", 422, "xxx…xxx"),
    "script in name": ("<script>alert(1)</script>.csv", b"label,prob\n2,3\n", 422, "script_.csv: "),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name, client) -> None:
    """The answer is a sentence about the file, with a status from 400 on, and no path of the server's."""
    file, content, status, said = HOSTILE[name]
    answer = client.post("/evaluate", files={"file": (file, content)}, data={"bootstrap": "2"})
    error = answer.json()["error"]
    assert said.replace("xxx…xxx", "x" * 50 + "…") in error
    assert answer.status_code == status
    assert error.endswith((".", ")"))
    assert "\n" not in error
    assert len(error) < 600
    assert "/proc" not in error


async def in_pieces() -> AsyncIterator[bytes]:
    yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
    yield bytes(1 << 20)
    yield bytes(1 << 20)


def form(content: Any, kind: str = "multipart/form-data; boundary=b") -> dict[str, Any]:
    return {"content": content, "headers": {"content-type": kind}}


def beside(**data: str) -> dict[str, Any]:
    return {"files": {"file": ("a.csv", EXAMPLE_CSV)}, "data": data}


PART = b"--b\r\nContent-Disposition: form-data"
REQUESTS: dict[str, tuple[dict[str, Any], int, str]] = {
    "no form": (form(b"{}", "application/json"), 415, "multipart"),
    "no type": ({"content": b"x"}, 415, "no content type"),
    "no boundary": (form(b"x", "multipart/form-data"), 400, "boundary"),
    "no parts": (form(b"junk"), 400, "request"),
    "cut off": (form(PART + b'; name="file"; filename="a.csv"\r\n\r\nlabel'), 400, "cut off"),
    "no name": (form(PART + b"\r\n\r\nx\r\n--b--\r\n"), 400, "every part must have a name"),
    "long header": (form(b"--b\r\nX: " + b"y" * 9000 + b"\r\n\r\nx\r\n--b--\r\n"), 400, "well-formed"),
    "long field": (beside(bins="1" * 70_000), 413, "file name"),
    "no file": ({"files": {"other": ("a.csv", b"x")}}, 422, "`file` must hold one file; got none."),
    "two files": ({"files": [("file", ("a.csv", b"x"))] * 2}, 422, "got 2"),
    "many files": ({"files": [("file", ("a.csv", b"x"))] * 9}, 413, "at most 4 files"),
    "large": ({"files": {"file": ("a.csv", bytes(2 << 20))}}, 413, "at most 1 MiB"),
    "large, unsaid": (form(in_pieces()), 413, "at most 1 MiB"),
    "bins": (beside(bins="0"), 422, "`bins` must be an integer"),
    "level": (beside(level="nan"), 422, "`level` must be a number"),
    "field": (beside(bin="3"), 422, "no field 'bin'"),
    "method": (beside(method="magic"), 422, "magic"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_hostile_requests(name, client) -> None:
    given, status, said = REQUESTS[name]
    answer = client.post("/evaluate", **given)
    assert said in answer.json()["error"]
    assert answer.status_code == status


def test_other_sites_and_paths(client) -> None:
    """Pages of other sites, other names of the server, unknown paths and methods are refused."""
    for origin in ("https://evil.example", "null", "http://["):
        assert client.get("/health", headers={"origin": origin}).status_code == 403, origin
    assert client.get("/health", headers={"host": "evil.example"}).status_code == 403
    for headers in ({"origin": "http://localhost"}, {"host": "127.0.0.1:8000"}, {"host": "[::1]:8000"}):
        assert client.get("/health", headers=headers).status_code == 200, headers
    assert client.get("/../../etc/passwd").json()["error"].startswith("there is nothing under this path")
    assert client.get("/evaluate").status_code == 405
    for path in ("/", "/health", "/nothing"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'self'; script-src 'self';" in policy


def test_uploads_are_never_files(client, monkeypatch) -> None:
    """An upload larger than the megabyte from which on others write files is read without one."""
    opened: list[str] = []
    plain = builtins.open

    def noted(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        opened.extend([str(file)] if set(mode) & set("wax+") else [])
        return plain(file, mode, *args, **kwargs)

    def counted(file: Upload, _: object, __: object, limits: Limits, ___: object) -> Answer:
        return Answer(json=str(predictions_of(file, limits).num_samples))

    monkeypatch.setattr(builtins, "open", noted)
    monkeypatch.setattr(os, "mkdir", noted)
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: iter(()))  # so none can be made
    monkeypatch.setattr(app, "evaluated", counted)
    content = EXAMPLE_CSV.encode() + b"\n" * 1_045_000
    answer = client.post("/evaluate", files={"file": ("a.csv", content)})
    assert (answer.status_code, answer.text) == (200, "24")
    assert opened == []


def test_nothing_is_held_afterwards(client) -> None:
    """Bytes count as held only while a request is answered, whatever the answer; all answers are counted."""
    client.post("/evaluate", files={"file": ("a.csv", bytes(2 << 20))})
    text = client.get("/metrics").text
    assert "calibrant_held_bytes 0\n" in text
    assert 'calibrant_answers_total{path="/evaluate",status="413"}' in text
