"""Summaries of all results in one file: derived from them, so it may be lost or behind at any time."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeAlias

from calibrant._math.errors import CalibrantWarning, InputError
from calibrant_lab.sweep.store.places import INDEX, RESULT_FILE, RUNS, Place
from calibrant_lab.sweep.store.result import FORMAT, DamagedResultError, summary_of

Summary: TypeAlias = dict[str, Any]


class Index:
    """The summaries of a store's results, read again only where a result is new or has changed."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: dict[str, tuple[str, Summary]] = {}
        self._damaged: dict[str, str] = {}
        self._loaded = False

    def summaries(self) -> list[Summary]:
        """The summaries of all results but damaged ones, with a warning; updates the index."""
        if not self._loaded:
            self._known, self._loaded = self._stored(), True
        stamps = self._place.stamps()
        seen = {run: stamp for run, (stamp, _) in self._known.items()} | self._damaged
        stale = [run for run, stamp in stamps.items() if seen.get(run) != stamp]
        for run in stale:
            name = f"{RUNS}/{run}/{RESULT_FILE}"
            content = self._place.read(name)
            if content is None:  # removed since they were listed
                continue
            try:
                self._known[run] = stamps[run], summary_of(content, f"{self._place.address}/{name}")
            except DamagedResultError as error:
                self._known.pop(run, None)
                self._damaged[run] = stamps[run]
                warnings.warn(str(error), CalibrantWarning, stacklevel=2)
        gone = self._known.keys() - stamps.keys()
        for run in gone:
            del self._known[run]
        if stale or gone:
            with suppress(OSError):  # a store that may only be read is read without one
                self._place.write(INDEX, self._lines().encode())
        return [summary for _, summary in self._known.values()]

    def rebuild(self) -> int:
        """Forget what is known and read every result; how many there are."""
        self._known, self._damaged, self._loaded = {}, {}, True
        return len(self.summaries())

    def _stored(self) -> dict[str, tuple[str, Summary]]:
        """What the file says; a line that cannot be read is as good as none."""
        content = self._place.read(INDEX) or b""
        lines = content.splitlines()
        found: dict[str, tuple[str, Summary]] = {}
        for line in _of_this_format(lines):
            with suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                found[entry["summary"]["run"]] = entry["stamp"], entry["summary"]
        return found

    def _lines(self) -> str:
        head = json.dumps({"format": FORMAT})
        entries = (
            json.dumps({"stamp": stamp, "summary": summary}, allow_nan=False, ensure_ascii=False)
            for stamp, summary in self._known.values()
        )
        return "\n".join([head, *entries]) + "\n"


def _of_this_format(lines: list[bytes]) -> Iterable[bytes]:
    with suppress(ValueError, InputError):
        if lines and json.loads(lines[0]) == {"format": FORMAT}:
            return lines[1:]
    return []
