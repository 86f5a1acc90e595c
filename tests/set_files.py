"""Sets of data as files, in the forms in which their authors publish them."""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def unpack(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def tar(path: Path, files: Mapping[str, bytes | None], **how: Any) -> Path:
    """An archive, gzipped where its name says so; None is a link to a file of the system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w", **how) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content or b"")
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(member, io.BytesIO(content or b""))
    return path


def idx(array: np.ndarray) -> bytes:
    """An array of bytes in Yann LeCun's format."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.tobytes()


def write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Lines of JSON, compressed where the name says so."""
    text = "".join(json.dumps(record) + "\n" for record in records).encode()
    unpack(path.parent, {path.name: gzip.compress(text) if path.suffix == ".gz" else text})
