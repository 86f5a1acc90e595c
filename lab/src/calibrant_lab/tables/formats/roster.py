"""Every format of a table, in the order of the help text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calibrant._math.text_form import named
from calibrant_lab.tables.build import Table
from calibrant_lab.tables.formats.csv import csv_text
from calibrant_lab.tables.formats.html import html_text
from calibrant_lab.tables.formats.latex import latex_text
from calibrant_lab.tables.formats.markdown import markdown_text
from calibrant_lab.tables.formats.terminal import terminal_text


@dataclass(frozen=True)
class Format:
    """A way to write a table.

    Attributes:
        name: Its name on the command line.
        ending: Ending of the files that are written so by default.
        write: From a table to its text.
    """

    name: str
    ending: str
    write: Callable[[Table], str]


FORMATS = {
    each.name: each
    for each in (
        Format("terminal", ".txt", terminal_text),
        Format("markdown", ".md", markdown_text),
        Format("latex", ".tex", latex_text),
        Format("csv", ".csv", csv_text),
        Format("html", ".html", html_text),
    )
}


def format_named(name: str) -> Format:
    """The format of that name.

    Raises:
        InputError: If there is none.

    Example:
        >>> format_named("latex").ending
        '.tex'
    """
    return named(name, FORMATS, "format")
