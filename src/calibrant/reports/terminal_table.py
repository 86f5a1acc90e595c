"""Tables of the terminal, and names in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def plain_table(name: str | Text | None = None, numbers: Iterable[str] = (), **options: Any) -> Table:
    """A table with a line under its head and none around it: a column of names, and columns of numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, **options)
    if name is not None:
        table.add_column(name, overflow="fold")
    for title in numbers:
        table.add_column(title, justify="right")
    return table


_PART = re.compile(r"[^-_/,(\s]*(?:[-_/,(\s]+|$)")


class Name:
    """A name that breaks between its parts in narrow columns, and not within a word."""

    def __init__(self, text: str) -> None:
        self._parts = [each for each in _PART.findall(text) if each]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(self._lines(options.max_width)), overflow="fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        longest = max((len(part.rstrip()) for part in self._parts), default=0)
        return Measurement(longest, len("".join(self._parts))).with_maximum(options.max_width)

    def _lines(self, width: int) -> Iterator[str]:
        line = ""
        for part in self._parts:
            if line and len(line + part.rstrip()) > width:
                yield line.rstrip()
                line = ""
            line += part
        yield line
