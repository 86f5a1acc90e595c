"""Origin of predictions: the file that was read, and the mark of the calibrator that was applied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._math.text_form import Note, of_kind

MARK = "calibrated_by"
"""The array or column that holds the mark, the same in every row."""
_START = "calibrant: "
_FROM, _SEEN = " of file ", " (fitted on it)"
_NOTE = "A calibrator was applied to these probabilities: "
_DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class Source:
    """File that was read."""

    name: str
    sha256: str
    format: str
    path: str | None = None
    """Path as given, for commands that can be run again."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Calibrator that was applied, and the digest of its file."""

    method: str
    file: str = ""
    """The first digits of the file's SHA-256, if it has one."""
    seen: bool = False
    """True if the calibrator was fitted on these samples."""

    @classmethod
    def of(cls, method: str, sha256: str, *, seen: bool = False, before: Mark | None = None) -> Mark:
        if before is None:
            return cls(method=method, file=sha256[:_DIGITS], seen=seen)
        return cls(method=f"{before.method} + {method}", file=before.file, seen=seen or before.seen)

    @property
    def text(self) -> str:
        """The mark as files hold it: ``calibrant: platt of file 5e884898da28 (fitted on it)``."""
        file = f"{_FROM}{self.file}" if self.file else ""
        return f"{_START}{self.method}{file}{_SEEN if self.seen else ''}"

    @property
    def note(self) -> Note:
        return Note(f"{_NOTE}{self.text.removeprefix(_START)}.", "mark", self)

    @property
    def brief(self) -> str:
        return f"{_NOTE}{self.method}."


def notes_of_mark(values: Any) -> tuple[str, ...]:
    """Return the note on predictions from the marks in their file, if any."""
    cells = map(str, np.asarray(values, dtype=object).reshape(-1))
    found = next((each for each in cells if each.startswith(_START)), None)
    if found is None:
        return ()
    method, _, file = found.removeprefix(_START).removesuffix(_SEEN).partition(_FROM)
    return (Mark(method=method, file=file, seen=found.endswith(_SEEN)).note,)


def mark_in(notes: Iterable[str]) -> Mark | None:
    return next((note.about for note in of_kind(notes, "mark")), None)
