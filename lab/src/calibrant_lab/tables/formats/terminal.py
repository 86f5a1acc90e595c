"""A table for the terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from calibrant_lab.tables.build import Table
from calibrant_lab.tables.shown import Line, Shown, show

_WIDEST = 4000
"""Characters of a line without a terminal: as many as the table needs."""
_NOTES = 100


def terminal_text(table: Table) -> str:
    """The table as plain text, as wide as it needs to be."""
    buffer = io.StringIO()
    Console(file=buffer, width=_WIDEST, color_system=None).print(rendered(table))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def rendered(table: Table, *, width: int | None = None) -> RenderableType:
    """The table for a console, its title above and its notes below.

    Args:
        table: The table.
        width: Width of the console; where the columns do not fit beside each other they stand in blocks.
    """
    shown = show(table)
    blocks = [_grid(shown, columns) for columns in _blocks(shown, width)]
    below = Grid.grid()
    below.add_column(width=min(width or _NOTES, _NOTES), overflow="fold")
    for note in [*shown.notes, *(f"{letter}  {note}" for letter, note in shown.footnotes)]:
        below.add_row(Text(note, style="dim"))
    title = [Text(shown.title, style="bold"), Text()] if shown.title else []
    return Group(*title, *(part for block in blocks for part in (block, Text())), below)


def _blocks(shown: Shown, width: int | None) -> list[list[int]]:
    """Columns that fit beside each other, in their order."""
    everything = list(range(len(shown.columns)))
    if width is None:
        return [everything]
    first = sum(
        2 + max(map(len, [name, *(row[place] for row in shown.rows)]))
        for place, name in enumerate(shown.levels)
    )
    blocks: list[list[int]] = [[]]
    room = width - first
    for column in everything:
        needed = 2 + max(
            len(text)
            for text in [
                *shown.columns[column],
                *(_words(line) for row in shown.cells for line in row[column]),
            ]
        )
        if blocks[-1] and needed > room:
            blocks.append([])
            room = width - first
        blocks[-1].append(column)
        room -= needed
    return blocks


def _grid(shown: Shown, columns: Sequence[int]) -> Grid:
    tall = any(len(row[column]) > 1 for row in shown.cells for column in columns)
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    for level in shown.levels:
        grid.add_column(Text(level), vertical="top", no_wrap=True)
    for column in columns:
        grid.add_column(
            Text("\n".join(shown.columns[column]), justify="right"), justify="right", no_wrap=True
        )
    for place, (labels, cells) in enumerate(zip(shown.rows_once, shown.cells, strict=True), 1):
        inside = (_cell(cells[column]) for column in columns)
        grid.add_row(*map(Text, labels), *inside, end_section=tall and place < len(shown.cells))
    return grid


def _cell(lines: tuple[Line, ...]) -> Text:
    found = Text()
    for place, line in enumerate(lines):
        style = "bold" if line.strong and line.kind == "value" else "dim" if place else ""
        found.append(("\n" if place else "") + _words(line), style=style)
    return found


def _words(line: Line) -> str:
    """A line with what can be seen without weights and raised letters."""
    best = "▸ " if line.strong and line.kind == "value" else ""
    return f"{best}{line.text}{f' {line.marks}' if line.marks else ''}"
