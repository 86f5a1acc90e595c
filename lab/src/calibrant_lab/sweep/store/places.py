"""Places of a store, a folder or any fsspec address, and leases: one run, one worker."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import secrets
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write, said_of

RUNS, WORK, LEASES, INDEX, README = "runs", "work", "leases", "index.jsonl", "README.txt"
RESULT_FILE = "result.json"
SPENT = ".calibrant-spent.json"
"""The time that a run has taken so far, in its folder while it is being done."""
_COPIES = ".copies"


def place_at(address: str | os.PathLike[str], *, create: bool = True) -> Place:
    if "://" in str(address):
        return RemotePlace(str(address))
    path = Path(address)
    if path.exists() and not path.is_dir():
        raise InputError(f"a store must be a folder or an address; {path} is a file.")
    if create:
        refuse_strangers(path)
    elif not (path / RUNS).is_dir():
        raise InputError(
            f"{path} is not a store of runs; create one with `calibrant sweep GRID --store {path}`."
        )
    return Place(path)


def refuse_strangers(path: Path) -> None:
    if not path.is_dir() or (path / LEASES).is_dir() or any(path.glob(f"{RUNS}/*/{RESULT_FILE}")):
        return
    own = {RUNS, WORK, LEASES, INDEX, README, "lost+found"}  # leases: another process may begin it now
    names = (each.name for each in path.iterdir())
    stranger = min((name for name in names if name not in own and not name.startswith(".")), default=None)
    if stranger is not None:
        raise InputError(
            f"{path} is not a store of runs: it holds other files, such as {stranger}; "
            "choose another --store."
        )


class Place:
    """Files by names with slashes, written atomically: a folder, also shared by machines."""

    def __init__(self, path: Path) -> None:
        self._folder = path
        self.address = str(path)
        with said_of(path, "used as a store"):
            for name in (RUNS, WORK, LEASES):
                (path / name).mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            return (self._folder / name).read_bytes()
        return None

    def write(self, name: str, content: bytes) -> None:
        with atomic_write(self._folder / name) as temporary:
            temporary.write_bytes(content)

    def create(self, name: str, content: bytes) -> bool:
        """Create a file; return False if it exists."""
        with suppress(FileExistsError), (self._folder / name).open("xb") as file:
            file.write(content)
            return True
        return False

    def delete(self, name: str) -> None:
        """Remove a file, or a folder and its content; a folder vanishes at once."""
        path = self._folder / name
        if path.is_dir():
            aside = Path(tempfile.mkdtemp(prefix=".calibrant-", dir=self._folder / WORK))
            with suppress(FileNotFoundError):
                path.rename(aside / "removed")
            shutil.rmtree(aside, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        with suppress(FileNotFoundError):
            return [each for each in os.listdir(self._folder / folder) if not each.startswith(".")]  # noqa: PTH208
        return []

    def stamps(self) -> dict[str, str]:
        """Return the finished runs with stamps that change with their results."""
        found: dict[str, str] = {}
        for run in self.names(RUNS):
            with suppress(OSError):
                found[run] = str((self._folder / RUNS / run / RESULT_FILE).stat().st_mtime_ns)
        return found

    def sizes(self) -> dict[str, int]:
        """Return bytes per finished run, and of all else under the empty name."""
        found = {run: _size(self._folder / RUNS / run) for run in self.names(RUNS)}
        return {**found, "": _size(self._folder) - sum(found.values())}

    def work(self, run: str) -> Path:
        return self._folder / WORK / run

    def bring(self, run: str) -> None:
        """Fetch a run's progress, if another machine got further."""

    def keep(self, run: str) -> None:
        """Save a run's progress for other machines."""

    def abandon(self, run: str) -> None:
        shutil.rmtree(self.work(run), ignore_errors=True)

    def unfinished(self) -> list[str]:
        return self.names(WORK)

    def publish(self, run: str) -> None:
        """Publish a completed run by renaming its folder, once all of it is on the disk."""
        source, target = self.work(run), self._folder / RUNS / run
        for path in [source / RESULT_FILE, *source.rglob("*.npz")]:
            _to_disk(path)
        try:
            source.rename(target)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST} and not target.is_dir():
                raise
            shutil.rmtree(source)  # finished by another, who took this run over
        _to_disk(target.parent)

    def local(self, run: str, name: str) -> Path:
        """Return the local path of a finished run's file, copied if needed."""
        return self._folder / RUNS / run / name


class RemotePlace(Place):
    """An fsspec address; runs are done in a local folder and copied there."""

    def __init__(self, address: str) -> None:
        import fsspec
        from fsspec.implementations.dirfs import DirFileSystem

        try:
            system, root = fsspec.core.url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise InputError(f"{address} cannot be used: {str(error).splitlines()[0]}") from error
        system.use_listings_cache = False
        self._system: Any = DirFileSystem(str(root).rstrip("/"), system)  # names are below the address
        self.address = address.rstrip("/")
        digest = hashlib.sha256(self.address.encode()).hexdigest()[:16]
        base = os.environ.get("CALIBRANT_SCRATCH") or Path(tempfile.gettempdir()) / "calibrant"
        self._scratch = Path(base) / digest

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            content: bytes = self._system.cat_file(name)
            return content
        return None

    def write(self, name: str, content: bytes) -> None:
        self._system.pipe_file(name, content)

    def create(self, name: str, content: bytes) -> bool:
        with suppress(FileExistsError):
            self._system.pipe_file(name, content, mode="create")
            return True
        return False

    def delete(self, name: str) -> None:
        """Remove an object, or all with this prefix; results go first."""
        shutil.rmtree(self._scratch / _COPIES / name.removeprefix(f"{RUNS}/"), ignore_errors=True)
        with suppress(FileNotFoundError):
            self._system.rm_file(f"{name}/{RESULT_FILE}")
        with suppress(FileNotFoundError):
            self._system.rm(name, recursive=True)

    def names(self, folder: str) -> list[str]:
        return sorted({name.split("/")[1] for name in self._below(folder)})

    def stamps(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, facts in self._below(RUNS).items():
            _, run, file = name.split("/", 2)
            if file == RESULT_FILE:
                known = [facts.get(key) for key in ("ETag", "LastModified", "created", "mtime", "size")]
                found[run] = " ".join(str(each) for each in known if each is not None)
        return found

    def sizes(self) -> dict[str, int]:
        found: dict[str, int] = {"": 0}
        for name, facts in self._below("").items():
            parts = name.split("/")
            run = parts[1] if parts[0] == RUNS and len(parts) > 2 else ""
            found[run] = found.get(run, 0) + int(facts.get("size") or 0)
        return found

    def work(self, run: str) -> Path:
        """Return a run's folder among temporary files, or in CALIBRANT_SCRATCH."""
        return self._scratch / run

    def bring(self, run: str) -> None:
        """Unpack the archive over the folder, if more time went into it."""
        folder = self.work(run)
        if (folder / RESULT_FILE).is_file():
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".calibrant-", dir=self._scratch) as aside:
            archive, found = Path(aside) / "work.tar", Path(aside) / "work"
            try:
                self._system.get_file(_archive(run), str(archive))
            except FileNotFoundError:
                return
            with tarfile.open(archive) as packed:
                packed.extractall(found, filter="data")
            if _time_spent(found) > _time_spent(folder):
                shutil.rmtree(folder, ignore_errors=True)
                found.rename(folder)

    def keep(self, run: str) -> None:
        with tempfile.TemporaryDirectory(prefix=".calibrant-", dir=self._scratch) as aside:
            archive = Path(aside) / "work.tar"
            with tarfile.open(archive, "w") as packed:
                packed.add(self.work(run), arcname=".")
            self._system.put_file(str(archive), _archive(run))

    def abandon(self, run: str) -> None:
        shutil.rmtree(self.work(run), ignore_errors=True)
        self.delete(_archive(run))

    def unfinished(self) -> list[str]:
        """Return this machine's unfinished runs, and those saved by others."""
        here = self._scratch.iterdir() if self._scratch.is_dir() else ()
        saved = (name.removesuffix(".tar") for name in self.names(WORK))
        return sorted({*(each.name for each in here if each.name[0] != "."), *saved})

    def publish(self, run: str) -> None:
        """Copy all files, the result last."""
        source = self.work(run)
        files = filter(Path.is_file, source.rglob("*"))
        for file in sorted(files, key=lambda path: path.name == RESULT_FILE):
            name = file.relative_to(source).as_posix()
            self._system.pipe_file(f"{RUNS}/{run}/{name}", file.read_bytes())
        self.abandon(run)

    def local(self, run: str, name: str) -> Path:
        target = self._scratch / _COPIES / run / name
        if not target.is_file():
            content = self.read(f"{RUNS}/{run}/{name}")
            if content is None:
                raise FileNotFoundError(f"{self.address}/{RUNS}/{run} holds no {name}.")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return target

    def _below(self, folder: str) -> dict[str, dict[str, Any]]:
        with suppress(FileNotFoundError):
            found: dict[str, dict[str, Any]] = self._system.find(folder, detail=True)
            return found
        return {}


def _archive(run: str) -> str:
    return f"{WORK}/{run}.tar"


def _time_spent(folder: Path) -> float:
    """Return seconds spent on a run's folder; -1 if unrecorded."""
    with suppress(OSError, ValueError):
        return float(json.loads((folder / SPENT).read_text(encoding="utf-8"))["wall_seconds"])
    return -1.0


def _size(folder: Path) -> int:
    total = 0
    for each in folder.rglob("*"):
        with suppress(OSError):
            total += each.lstat().st_size if each.is_file() else 0
    return total


def _to_disk(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


EXPIRY = 120.0
"""Seconds of silence after which a lease of another machine has ended; clocks must agree better than that."""
_BEATS = 6  # renewals of a lease in that time
_NOTE_EVERY = 2.0
"""Seconds between notes in it of how far the run is, where each costs nothing: in a folder."""


@dataclass(frozen=True)
class Holder:
    """Holder of a lease."""

    host: str
    machine: str  # host, boot and process namespace: where it is the same, process numbers mean the same
    pid: int
    started: str  # when the process was started, as the system counts; empty where it does not say
    token: str
    time: float  # when it was renewed
    share: float = 0.0  # how far the run was then
    words: str = ""  # how far the run was then, in words

    @property
    def lapsed(self) -> bool:
        silent = time.time() - self.time > EXPIRY
        if self.machine != _machine() or os.name != "posix":
            return silent
        if not _is_alive(self.pid):
            return True
        return self.started != _start_of(self.pid) if self.started else silent


class Leases:
    """The leases of a store.

    A lease is a numbered file that only one process can create. If the holder of the highest number is gone,
    whoever creates the next number holds the run, so two can never hold it at once.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.note_every = EXPIRY / _BEATS if "://" in place.address else _NOTE_EVERY  # seconds

    def claim(self, run: str, *, lost: Callable[[], None] = lambda: None) -> Lease | None:
        """Return a run's lease, or None if another holds it; ``lost`` is called on a later loss."""
        last = self.newest(run)
        if last:
            holder = self._holder(run, last)
            if holder is None or not holder.lapsed:
                return None
        lease = Lease(self, run, last + 1, lost)
        if not self.place.create(lease.name, lease.content()):
            return None
        if last and self.place.read(_name(run, last)) is None:
            # Another took it over and gave it back meanwhile; whoever came after that does not know of this.
            self.place.delete(lease.name)
            return None
        return lease

    def held(self, runs: Collection[str] | None = None) -> dict[str, Holder]:
        newest = dict(sorted(self._all()))
        chosen = sorted(newest if runs is None else newest.keys() & runs)
        found = {run: self._holder(run, newest[run]) for run in chosen}
        return {run: each for run, each in found.items() if each is not None and not each.lapsed}

    def newest(self, run: str) -> int:
        """Return the number of a run's newest lease, or 0."""
        return max((number for each, number in self._all() if each == run), default=0)

    def clear(self, run: str, up_to: int) -> None:
        for each, number in self._all():
            if each == run and number <= up_to:
                with suppress(FileNotFoundError):
                    self.place.delete(_name(run, number))

    def _all(self) -> list[tuple[str, int]]:
        found = [name.split(".") for name in self.place.names(LEASES)]
        return [(parts[0], int(parts[1])) for parts in found if len(parts) == 3]

    def _holder(self, run: str, number: int) -> Holder | None:
        content = self.place.read(_name(run, number))
        if content is None:
            return None
        try:
            return Holder(**json.loads(content))
        except (ValueError, TypeError):  # being written at this moment, or cut off when a machine went down
            nobody = Holder(host="?", machine="?", pid=0, started="", token="", time=time.time())
            return _UNREADABLE.setdefault((self.place.address, run, number), nobody)


_UNREADABLE: dict[tuple[str, str, int], Holder] = {}
"""Stands for files that cannot be read: from when each was first seen so, as for a silent machine."""


class Lease:
    """Exclusive right to a run; on entry, it is renewed in the background."""

    def __init__(self, leases: Leases, run: str, number: int, lost: Callable[[], None]) -> None:
        self._leases, self._run, self._number, self._lost = leases, run, number, lost
        self._token = secrets.token_hex(8)
        self._guard, self._ended = threading.Lock(), threading.Event()
        self._share, self._words, self._written = 0.0, "", time.monotonic()
        self.name = _name(run, number)

    def content(self) -> bytes:
        pid = os.getpid()
        process = (platform.node(), _machine(), pid, _start_of(pid))
        holder = Holder(*process, self._token, time.time(), self._share, self._words)
        return json.dumps(asdict(holder)).encode()

    @property
    def is_ours(self) -> bool:
        return self._leases.newest(self._run) <= self._number

    def __enter__(self) -> Self:
        threading.Thread(target=self._stay_alive, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._ended.set()
        self._leases.clear(self._run, self._number)

    def note(self, share: float, words: str) -> None:
        """Store the progress in the lease file at its next write."""
        self._share, self._words = share, words
        if time.monotonic() - self._written > self._leases.note_every:
            self.renew()

    def renew(self) -> None:
        """Renew the lease, or report its loss if another took over."""
        with self._guard, suppress(OSError):  # the next time will do
            if self._ended.is_set():
                return
            self._written = time.monotonic()
            if self.is_ours:
                self._leases.place.write(self.name, self.content())
            else:
                self._ended.set()
                self._lost()

    def _stay_alive(self) -> None:
        while not self._ended.wait(EXPIRY / _BEATS):
            self.renew()


def _name(run: str, number: int) -> str:
    return f"{LEASES}/{run}.{number}.json"


@cache
def _machine() -> str:
    """Return what identifies a machine, for comparable process numbers."""
    boot, namespace = "", ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return f"{platform.node()} {boot} {namespace}".strip()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:  # of another user's process it is a PermissionError
        return not isinstance(error, ProcessLookupError)
    return True


def _start_of(pid: int) -> str:
    """Return a process's start in system ticks; empty if unknown, or for a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
