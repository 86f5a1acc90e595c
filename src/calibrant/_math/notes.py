"""Sentences for the reader that code recognises by their kind, whatever their words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self


class Note(str):
    """A sentence with its kind and what it is about; plain text for users and in JSON.

    Example:
        >>> import pickle
        >>> pickle.loads(pickle.dumps(Note("From 1 to 5.", "scale", (1, 5)))).about
        (1, 5)
    """

    __slots__ = ("about", "kind")
    kind: str
    about: Any

    def __new__(cls, text: str, kind: str = "", about: Any = None) -> Self:
        note = super().__new__(cls, text)
        note.kind, note.about = kind, about
        return note


def of_kind(notes: Iterable[str], *kinds: str) -> list[Note]:
    """The notes of some kinds.

    Example:
        >>> of_kind(["Measured in May.", Note("Not used: `id`.", "unused")], "unused", "empty")
        ['Not used: `id`.']
    """
    return [note for note in notes if isinstance(note, Note) and note.kind in kinds]


def reworded(note: str, text: str) -> str:
    """Other words for a note, of the same kind."""
    return Note(text, note.kind, note.about) if isinstance(note, Note) else text
