"""Further sections of a report as data: words, facts, a table and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from markupsafe import Markup

from calibrant.reports.pictures import Picture


@dataclass(frozen=True, kw_only=True)
class SectionTable:
    """A table whose first column names the rows."""

    label: str  # description for readers who cannot see the table
    groups: tuple[tuple[str, int], ...] = ()  # titles above the columns, with the number of columns spanned
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Markup, ...], ...]
    words: tuple[int, ...] = ()  # columns of words, set flush left


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section of a page."""

    title: str
    text: tuple[str | Markup, ...] = ()
    points: tuple[str | Markup, ...] = ()  # shown as a list
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    key: tuple[tuple[str, Markup], ...] = ()  # lines of the pictures, from `pictures.legend`
    pictures: tuple[Picture, ...] = ()
    table: SectionTable | None = None
    note: str = ""  # small print below all of it
