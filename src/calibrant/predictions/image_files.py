"""Arrays of images in files and archives, of which one image at a time is read."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, reason


class ImageFiles:
    """Arrays in files of their own, read when they are asked for."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = [each.absolute() for each in paths]

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, place: int) -> NDArray[Any]:
        with damage_named(self._paths[place]):
            return np.load(self._paths[place], allow_pickle=False)


class MappedImages:
    """An array in a file, mapped; who else works on it maps it too."""

    def __init__(self, path: Path) -> None:
        self._path, self._array = path.absolute(), np.load(path, mmap_mode="r", allow_pickle=False)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, place: int) -> NDArray[Any]:
        return self._array[place]

    def __reduce__(self) -> tuple[type[MappedImages], tuple[Path]]:
        return MappedImages, (self._path,)


class ImagesOfArchive:
    """The images of an array in an archive; where it is packed, reading them in order costs one pass."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path.absolute(), name
        with zipfile.ZipFile(path) as archive:
            self._shape, self._dtype, self._offset = header_of(archive, name)
            self._start = _start(path, archive.getinfo(f"{name}.npy"))
        self._next = 0
        self._stream: Any = None

    def __len__(self) -> int:
        return self._shape[0]

    def __getitem__(self, place: int) -> NDArray[Any]:
        with damage_named(self._path):
            return self._read(place)

    def __del__(self) -> None:
        stream = getattr(self, "_stream", None)  # none if the file could not be opened
        if stream is not None:
            stream.close()

    def __reduce__(self) -> tuple[type[ImagesOfArchive], tuple[Path, str]]:
        return ImagesOfArchive, (self._path, self._name)

    @property
    def in_any_order(self) -> bool:
        """Whether an image can be read without those before it."""
        return self._start is not None

    def _read(self, place: int) -> NDArray[Any]:
        size = math.prod(self._shape[1:]) * self._dtype.itemsize
        if self._start is not None and place != self._next:  # in order the checksum of all is looked at
            with self._path.open("rb") as file:
                file.seek(self._start + self._offset + place * size)
                return self._as_image(file.read(size), place)
        if self._stream is None or place < self._next:
            if self._stream is not None:
                self._stream.close()
            with zipfile.ZipFile(self._path) as archive:  # which stays open as long as its member does
                self._stream = archive.open(f"{self._name}.npy")
            self._stream.read(self._offset)
            self._next = 0
        for _ in range(self._next, place):
            self._stream.read(size)
        self._next = place + 1
        return self._as_image(self._stream.read(size), place)

    def _as_image(self, data: bytes, place: int) -> NDArray[Any]:
        if len(data) < math.prod(self._shape[1:]) * self._dtype.itemsize:
            raise InputError(f"{self._path} was cut off: it ends within image {place}.")
        return np.frombuffer(data, self._dtype).reshape(self._shape[1:])


def _start(path: Path, member: zipfile.ZipInfo) -> int | None:
    """Where a member that is not packed begins."""
    if member.compress_type != zipfile.ZIP_STORED:
        return None
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)  # its own header: two lengths, a name and more
        lengths = file.read(4)
    return member.header_offset + 30 + sum(int.from_bytes(lengths[k : k + 2], "little") for k in (0, 2))


def header_of(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, dtype and where the numbers begin."""
    read: dict[tuple[int, int], Callable[..., Any]] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with archive.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        if version not in read:
            raise InputError(f"`{name}` must hold plain numbers.")
        shape, by_column, dtype = read[version](file)
        if by_column or dtype.hasobject:
            raise InputError(f"`{name}` must hold plain numbers in C order.")
        return shape, dtype, file.tell()


@contextmanager
def damage_named(path: Path) -> Generator[None]:
    """What is wrong with the bytes of a file is said with its name."""
    try:
        yield
    except (InputError, MemoryError, OSError):
        raise
    except DAMAGE as error:
        raise InputError(f"{path} is damaged: {reason(error)}.") from error
