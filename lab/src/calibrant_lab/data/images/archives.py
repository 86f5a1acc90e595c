"""Read files from a folder or an archive in place; refuse archives with entries that lead outside."""

from __future__ import annotations

import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, reason

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
LARGEST = 2**30  # bytes of a single file that a set of images may hold
_DAMAGE = (*DAMAGE, tarfile.TarError, lzma.LZMAError)


class Files:
    """Files of a set, with their sizes by name, which includes folders, with slashes."""

    def __init__(self, path: Path, sizes: Mapping[str, int], of: Callable[[str], IO[bytes] | None]) -> None:
        self.path, self.sizes, self._of = path, sizes, of

    def open(self, name: str) -> IO[bytes]:
        if self.sizes[name] > LARGEST:
            raise _refused(self.path, name, f"unpacks to {self.sizes[name]} bytes")
        return self._of(name) or io.BytesIO()

    def read(self, name: str) -> bytes:
        with self.open(name) as stream:
            return stream.read()

    def find(self, last: str) -> str | None:
        """Return the name of the file whose path ends in ``last``, or None."""
        found = (name for name in self.sizes if f"/{name}".endswith(f"/{last}"))
        return min(found, key=lambda name: name.count("/"), default=None)

    def content(self, last: str, *, what: str) -> bytes:
        """Return the content of the file whose path ends in ``last``; errors call a missing file ``what``."""
        name = self.find(last)
        if name is None:
            raise InputError(f"{self.path} has no {last}, which should hold {what}; get all of it again.")
        return self.read(name)


def _of_folder(path: Path) -> Files:
    names = sorted(entry.relative_to(path).as_posix() for entry in path.rglob("*") if entry.is_file())
    return Files(path, dict.fromkeys(names, 0), lambda name: (path / name).open("rb"))


def _of_zip(path: Path, archive: zipfile.ZipFile) -> Files:
    refuse_tricks(path, archive.namelist())
    for member in archive.infolist():
        if stat.S_ISLNK(member.external_attr >> 16):
            raise _refused(path, member.filename, "is a link or a device, not a file")
    sizes = {each.filename: each.file_size for each in archive.infolist() if not each.is_dir()}
    return Files(path, sizes, archive.open)


def _of_tar(path: Path, archive: tarfile.TarFile) -> Files:
    refuse_tricks(path, archive.getnames())
    members = {each.name: each for each in archive.getmembers() if not each.isdir()}
    for member in members.values():
        if not member.isfile():
            raise _refused(path, member.name, "is a link or a device, not a file")
    if path.suffix != ".tar" and archive.fileobj:  # the end holds a checksum, looked at when it is met
        while archive.fileobj.read(2**20):
            pass
    sizes = {name: each.size for name, each in members.items()}
    return Files(path, sizes, lambda name: archive.extractfile(members[name]))


@contextmanager
def opened(path: Path) -> Generator[Files]:
    """Open a folder, or an archive whose entries stay inside."""
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    try:
        if path.is_dir():
            yield _of_folder(path)
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                yield _of_zip(path, archive)
        else:
            with tarfile.open(path) as archive:
                yield _of_tar(path, archive)
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
