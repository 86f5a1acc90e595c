"""Sections that a report has beside those of an evaluation: words, facts, a table and pictures, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from markupsafe import Markup

from calibrant.reports.pictures import Picture


@dataclass(frozen=True, kw_only=True)
class SectionTable:
    """A table whose first column names the rows."""

    label: str
    """Description for readers who cannot see the table."""
    groups: tuple[tuple[str, int], ...] = ()
    """Titles above the columns, each with the number of columns it spans."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Markup, ...], ...]
    words: tuple[int, ...] = ()
    """Columns of words, which are set flush left."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section of a page."""

    title: str
    text: tuple[str | Markup, ...] = ()
    points: tuple[str | Markup, ...] = ()
    """Shown as a list."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    key: tuple[tuple[str, Markup], ...] = ()
    """What the lines of the pictures mean, as :func:`calibrant.reports.pictures.legend` makes it."""
    pictures: tuple[Picture, ...] = ()
    table: SectionTable | None = None
    note: str = ""
    """Small print below all of it."""
