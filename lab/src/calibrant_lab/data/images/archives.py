"""Read files from a folder or an archive in place; refuse archives with entries that lead outside."""

from __future__ import annotations

import io
import lzma
import stat
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, reason

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
LARGEST = 2**30  # bytes of a single file that a set of images may hold
_DAMAGE = (*DAMAGE, tarfile.TarError, lzma.LZMAError)


class Files(ABC):
    """Files of a set by name, which includes folders, with slashes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def names(self) -> list[str]: ...

    @abstractmethod
    def open(self, name: str) -> IO[bytes]: ...

    def read(self, name: str) -> bytes:
        with self.open(name) as stream:
            return stream.read()

    def find(self, last: str) -> str | None:
        """Return the name of the file whose path ends in ``last``, or None."""
        wanted = PurePosixPath(last).parts
        found = (name for name in self.names() if PurePosixPath(name).parts[-len(wanted) :] == wanted)
        return next(found, None)

    def content(self, last: str, *, what: str) -> bytes:
        """Return the content of the file whose path ends in ``last``; errors call a missing file ``what``."""
        name = self.find(last)
        if name is None:
            raise InputError(f"{self.path} has no {last}, which should hold {what}; get all of it again.")
        return self.read(name)


class _Folder(Files):
    def names(self) -> list[str]:
        return sorted(
            entry.relative_to(self.path).as_posix() for entry in self.path.rglob("*") if entry.is_file()
        )

    def find(self, last: str) -> str | None:
        places = (each for depth in ("", "*/", "*/*/") for each in sorted(self.path.glob(depth + last)))
        return next((each.relative_to(self.path).as_posix() for each in places if each.is_file()), None)

    def open(self, name: str) -> IO[bytes]:
        return (self.path / name).open("rb")


class _Tar(Files):
    def __init__(self, path: Path, archive: tarfile.TarFile) -> None:
        super().__init__(path)
        self._archive = archive
        self._members = {each.name: each for each in archive.getmembers() if not each.isdir()}
        refuse_tricks(path, [each.name for each in archive.getmembers()])
        for member in self._members.values():
            if not member.isfile():
                raise _refused(path, member.name, "is a link or a device, not a file")
        if path.suffix != ".tar":  # the end of a compressed one is a checksum, looked at when it is met
            while archive.fileobj.read(2**20):
                pass

    def names(self) -> list[str]:
        return list(self._members)

    def open(self, name: str) -> IO[bytes]:
        member = self._members[name]
        if member.size > LARGEST:
            raise _refused(self.path, name, f"unpacks to {member.size} bytes")
        return self._archive.extractfile(member) or io.BytesIO()


class _Zip(Files):
    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        super().__init__(path)
        self._archive = archive
        refuse_tricks(path, archive.namelist())
        for member in archive.infolist():
            if stat.S_ISLNK(member.external_attr >> 16):
                raise _refused(path, member.filename, "is a link or a device, not a file")

    def names(self) -> list[str]:
        return [name for name in self._archive.namelist() if not name.endswith("/")]

    def open(self, name: str) -> IO[bytes]:
        if (size := self._archive.getinfo(name).file_size) > LARGEST:
            raise _refused(self.path, name, f"unpacks to {size} bytes")
        return self._archive.open(name)


@contextmanager
def opened(path: Path) -> Generator[Files]:
    """Open a folder, or an archive whose entries stay inside."""
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    try:
        if path.is_dir():
            yield _Folder(path)
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                yield _Zip(path, archive)
        else:
            with tarfile.open(path) as archive:
                yield _Tar(path, archive)
    except InputError:
        raise
    except _DAMAGE as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> InputError:
    if not path.stat().st_size:
        return InputError(f"{path} is empty; delete it and get it again.")
    return InputError(f"{path} is damaged or cut off ({reason(error)}); delete it and get it again.")


def _refused(path: Path, name: str, why: str) -> InputError:
    return InputError(f"{path} is refused: {name!r} in it {why}.")


def refuse_tricks(path: Path, names: Iterable[str]) -> None:
    for name in names:
        plain = name.replace("\\", "/")
        if plain.startswith("/") or ":" in plain.split("/", maxsplit=1)[0] or ".." in plain.split("/"):
            raise _refused(path, name, "leads out of the archive's own folder")
