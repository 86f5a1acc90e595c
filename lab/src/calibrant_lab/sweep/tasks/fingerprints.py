"""Fingerprints of data, computed once for the same files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


class Fingerprints:
    """Expensive digests by what they are computed from; ``keep`` takes all when there is a new one."""

    def __init__(
        self, known: Mapping[str, str] | None = None, keep: Callable[[Mapping[str, str]], None] | None = None
    ) -> None:
        self._known = dict(known or {})
        self._keep = keep

    def get(self, key: object, compute: Callable[[], str]) -> str:
        """The digest that goes with ``key`` (whatever JSON can hold), computed if it is not known."""
        name = hashlib.sha256(canonical(key).encode()).hexdigest()[:32]
        if name not in self._known:
            self._known[name] = compute()
            if self._keep is not None:
                self._keep(self._known)
        return self._known[name]


def canonical(content: object) -> str:
    """JSON with one spelling."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def state_of(paths: Iterable[Path]) -> list[list[Any]]:
    """Names, sizes and times of files and of everything in folders: alike, as long as nobody changes them."""
    found: list[list[Any]] = []
    for path in paths:
        files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
        for file in files:
            status = file.stat()
            found.append([str(file.resolve()), status.st_size, status.st_mtime_ns])
    return found


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
