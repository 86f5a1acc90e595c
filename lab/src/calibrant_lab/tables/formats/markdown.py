"""A table in Markdown."""

from __future__ import annotations

import re

from calibrant_lab.tables.build import Table
from calibrant_lab.tables.shown import Line, show


def markdown_text(table: Table) -> str:
    """The table with its title above and its notes below."""
    shown = show(table)
    heads = [*shown.levels, *(", ".join(words) for words in shown.columns)]
    ruler = ["---"] * len(shown.levels) + ["---:"] * len(shown.columns)
    rows = [
        [*map(escaped, labels), *("<br>".join(map(_line, cell)) for cell in cells)]
        for labels, cells in zip(shown.rows, shown.cells, strict=True)
    ]
    lines = ["| " + " | ".join(cells) + " |" for cells in ([escaped(head) for head in heads], ruler, *rows)]
    title = [f"**{escaped(shown.title)}**", ""] if shown.title else []
    notes = [f"{escaped(note)}\n" for note in shown.notes]
    footnotes = [f"<sup>{letter}</sup> {escaped(note)}\n" for letter, note in shown.footnotes]
    return "\n".join([*title, *lines, "", *notes, *footnotes]).rstrip("\n") + "\n"


def escaped(text: str) -> str:
    r"""Text that Markdown shows as it is.

    Example:
        >>> print(escaped("a_b | *c*"))
        a\_b \| \*c\*
    """
    return re.sub(r"([\\`*_|<\[\]])", r"\\\1", text)


def _line(line: Line) -> str:
    text = escaped(line.text)
    marks = f"<sup>{line.marks}</sup>" if line.marks else ""
    return (f"**{text}**" if line.strong and line.kind == "value" else text) + marks
