"""Where a store lies: a folder of this machine, or any address that fsspec knows."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

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
        raise InputError(f"{path} holds no store of runs; `calibrant sweep GRID --store NEW` makes one.")
    return Place(path)


def refuse_strangers(path: Path) -> None:
    """Refuse to begin a store in a folder that holds other things."""
    if not path.is_dir() or (path / LEASES).is_dir() or any(path.glob(f"{RUNS}/*/{RESULT_FILE}")):
        return
    own = {RUNS, WORK, LEASES, INDEX, README, "lost+found"}  # leases: another process may begin it now
    names = (each.name for each in path.iterdir())
    stranger = min((name for name in names if name not in own and not name.startswith(".")), default=None)
    if stranger is not None:
        raise InputError(
            f"{path} is no store of runs and holds other things, such as {stranger}; choose another --store."
        )


class Place:
    """Files by names with slashes, each whole or not there: a folder, which several machines may share."""

    def __init__(self, path: Path) -> None:
        self._folder = path
        self.address = str(path)
        with said_of(path, "used as a store"):
            for name in (RUNS, WORK, LEASES):
                (path / name).mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str, content: bytes) -> None:
        with atomic_write(self._folder / name) as temporary:
            temporary.write_bytes(content)

    def create(self, name: str, content: bytes) -> bool:
        """Make a file; False if there is one, whoever made it."""
        try:
            with (self._folder / name).open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    def delete(self, name: str) -> None:
        """Remove a file, or a folder with all in it, if there is one; a folder vanishes at once."""
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
        """The finished runs, each with something that changes when its result does."""
        found: dict[str, str] = {}
        for run in self.names(RUNS):
            with suppress(OSError):
                found[run] = str((self._folder / RUNS / run / RESULT_FILE).stat().st_mtime_ns)
        return found

    def sizes(self) -> dict[str, int]:
        """Bytes of every finished run, and of everything else together under the empty name."""
        found = {run: _size(self._folder / RUNS / run) for run in self.names(RUNS)}
        return {**found, "": _size(self._folder) - sum(found.values())}

    def work(self, run: str) -> Path:
        """The folder of this machine in which a run is done; there from its first start to its end."""
        return self._folder / WORK / run

    def bring(self, run: str) -> None:
        """Have in that folder what was done of a run, if another machine did more of it than this one."""

    def keep(self, run: str) -> None:
        """Save what was done of a run so that other machines find it."""

    def abandon(self, run: str) -> None:
        """Remove what was done of a run."""
        shutil.rmtree(self.work(run), ignore_errors=True)

    def unfinished(self) -> list[str]:
        return self.names(WORK)

    def publish(self, run: str) -> None:
        """Make the folder in which a run was done, complete with its result, that of a finished run.

        It is renamed once the result and arrays have reached the disk: a crash leaves all of it or none.
        """
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
        """A file of a finished run on this machine, copied here if need be."""
        return self._folder / RUNS / run / name


class RemotePlace(Place):
    """An address that fsspec knows; runs are done in a folder of this machine and copied there."""

    def __init__(self, address: str) -> None:
        import fsspec

        try:
            system, root = fsspec.core.url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise InputError(f"{address} cannot be used: {str(error).splitlines()[0]}") from error
        self._system: Any = system
        self._system.use_listings_cache = False
        self._root = str(root).rstrip("/")
        self.address = address.rstrip("/")
        digest = hashlib.sha256(self.address.encode()).hexdigest()[:16]
        base = os.environ.get("CALIBRANT_SCRATCH") or Path(tempfile.gettempdir()) / "calibrant"
        self._scratch = Path(base) / digest

    def read(self, name: str) -> bytes | None:
        try:
            content: bytes = self._system.cat_file(self._path(name))
        except FileNotFoundError:
            return None
        return content

    def write(self, name: str, content: bytes) -> None:
        self._system.pipe_file(self._path(name), content)

    def create(self, name: str, content: bytes) -> bool:
        try:
            self._system.pipe_file(self._path(name), content, mode="create")
        except FileExistsError:
            return False
        return True

    def delete(self, name: str) -> None:
        """Remove an object, or all whose names begin so; a result goes first."""
        shutil.rmtree(self._scratch / _COPIES / name.removeprefix(f"{RUNS}/"), ignore_errors=True)
        with suppress(FileNotFoundError):
            self._system.rm_file(self._path(f"{name}/{RESULT_FILE}"))
        with suppress(FileNotFoundError):
            self._system.rm(self._path(name), recursive=True)

    def names(self, folder: str) -> list[str]:
        return sorted({name.partition("/")[0] for name, _ in self._below(folder)})

    def stamps(self) -> dict[str, str]:
        """Finished runs, by what the system says of their result."""
        found: dict[str, str] = {}
        for name, facts in self._below(RUNS):
            run, _, file = name.partition("/")
            if file == RESULT_FILE:
                known = [facts.get(key) for key in ("ETag", "LastModified", "created", "mtime", "size")]
                found[run] = " ".join(str(each) for each in known if each is not None)
        return found

    def sizes(self) -> dict[str, int]:
        found: dict[str, int] = {"": 0}
        for name, facts in self._below(""):
            parts = name.split("/")
            run = parts[1] if parts[0] == RUNS and len(parts) > 2 else ""
            found[run] = found.get(run, 0) + int(facts.get("size") or 0)
        return found

    def work(self, run: str) -> Path:
        """In the folder for temporary files, or that which CALIBRANT_SCRATCH names."""
        return self._scratch / run

    def bring(self, run: str) -> None:
        """Unpack the archive in the place of the folder, if more time went into it."""
        folder = self.work(run)
        if (folder / RESULT_FILE).is_file():
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".calibrant-", dir=self._scratch) as aside:
            archive, found = Path(aside) / "work.tar", Path(aside) / "work"
            try:
                self._system.get_file(self._path(_archive(run)), str(archive))
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
            self._system.put_file(str(archive), self._path(_archive(run)))

    def abandon(self, run: str) -> None:
        shutil.rmtree(self.work(run), ignore_errors=True)
        self.delete(_archive(run))

    def unfinished(self) -> list[str]:
        """Unfinished runs of this machine, and what others have saved."""
        here = self._scratch.iterdir() if self._scratch.is_dir() else ()
        saved = (name.removesuffix(".tar") for name in self.names(WORK))
        return sorted({*(each.name for each in here if each.name[0] != "."), *saved})

    def publish(self, run: str) -> None:
        """Copy all files, the result last."""
        source = self.work(run)
        files = sorted(
            (each for each in source.rglob("*") if each.is_file()), key=lambda p: p.name == RESULT_FILE
        )
        for file in files:
            name = file.relative_to(source).as_posix()
            self._system.pipe_file(self._path(f"{RUNS}/{run}/{name}"), file.read_bytes())
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

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _below(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Objects below a name, with what the system says of them."""
        start = self._path(name)
        try:
            found: dict[str, dict[str, Any]] = self._system.find(start, detail=True)
        except FileNotFoundError:
            return
        prefix = str(self._system._strip_protocol(start)).rstrip("/") + "/"
        for path, facts in found.items():
            yield path.removeprefix(prefix), facts


def _archive(run: str) -> str:
    return f"{WORK}/{run}.tar"


def _time_spent(folder: Path) -> float:
    """Seconds spent on the run in a folder; -1 where none are recorded."""
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
