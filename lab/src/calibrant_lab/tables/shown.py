"""A table in words: what stands where, before a format escapes and arranges it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from calibrant._math.means import plus_minus
from calibrant_lab.tables.build import Table
from calibrant_lab.tables.cells import Cell, Printed
from calibrant_lab.tables.comparisons import Comparison
from calibrant_lab.tables.headings import Heading
from calibrant_lab.tables.layout import Layout
from calibrant_lab.tables.notes import notes, usual_count

MISSING = "–"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = {"data.name": "data", "training.epochs": "epochs"}


@dataclass(frozen=True)
class Line:
    """A line of a cell; ``marks`` are letters of footnotes."""

    text: str
    kind: Literal["value", "difference", "published"]
    strong: bool = False
    marks: str = ""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A table in words.

    Attributes:
        title: What it is a table of.
        levels: What the words before each row are.
        rows: These words.
        columns: The words above each column, all of the same number.
        cells: Lines, by row and column.
        notes: Sentences below the table.
        footnotes: What the letters mean.
    """

    title: str
    levels: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[tuple[Line, ...], ...], ...]
    notes: tuple[str, ...]
    footnotes: tuple[tuple[str, str], ...]

    @property
    def rows_once(self) -> list[tuple[str, ...]]:
        """The words before each row, those left out that the row above has too."""
        found: list[tuple[str, ...]] = []
        before: tuple[str, ...] = ()
        for row in self.rows:
            alike = [row[: place + 1] == before[: place + 1] for place in range(len(row))]
            found.append(tuple("" if seen else word for seen, word in zip(alike, row, strict=True)))
            before = row
        return found


def show(table: Table) -> Shown:
    """The words of a table."""
    footnotes = _footnotes(table)
    marks = {note: letter for letter, note in footnotes}
    usual = usual_count(table)
    return Shown(
        title=table.layout.title,
        levels=(
            *(_WORDS.get(level, level) for level in table.layout.rows),
            *([""] if table.layout.quantities == "rows" else []),
        ),
        rows=tuple(_words(row) for row in table.rows),
        columns=tuple(_words(column) for column in table.columns),
        cells=tuple(tuple(_lines(cell, table.layout, usual, marks) for cell in row) for row in table.cells),
        notes=tuple(notes(table)),
        footnotes=footnotes,
    )


def spans(words: Sequence[tuple[str, ...]], level: int) -> list[tuple[str, int]]:
    """The words of a level above the columns, each with the number of columns that it stands over.

    Example:
        >>> spans([("a", "x"), ("a", "y"), ("b", "x")], 0)
        [('a', 2), ('b', 1)]
    """
    found: list[tuple[str, int]] = []
    last: tuple[str, ...] = ()
    for each in words:
        if found and each[: level + 1] == last and level < len(each) - 1:
            found[-1] = each[level], found[-1][1] + 1
        else:
            found.append((each[level], 1))
        last = each[: level + 1]
    return found


def _words(heading: Heading) -> tuple[str, ...]:
    quantity = heading.quantity
    if quantity is None:
        return heading.labels
    return (*heading.labels, " ".join(filter(None, [quantity.title, quantity.unit])))


def _lines(cell: Cell, layout: Layout, usual: int, marks: dict[str, str]) -> tuple[Line, ...]:
    found = [Line(_value(cell, usual), "value", strong=cell.best)]
    if cell.against is not None and cell.against.difference is not None:
        found.append(Line(_difference(cell, cell.against), "difference", strong=cell.against.decided))
    if cell.printed is not None:
        mark = marks.get(_remark(layout, cell.printed), "")
        found.append(Line(_published(cell, cell.printed), "published", marks=mark))
    return tuple(found)


def _value(cell: Cell, usual: int) -> str:
    runs = sum(cell.runs.values())
    if cell.mean is None:
        if runs:
            return f"{MISSING} (0 of {runs})"
        return f"{MISSING} (0 of {cell.wanted})" if cell.wanted else MISSING
    text = plus_minus(cell.mean, cell.quantity.digits)
    if cell.bracket is not None:
        text += f" ({cell.bracket:.2f})"
    return text if cell.mean.n == usual else f"{text} [n = {cell.mean.n}]"


def _difference(cell: Cell, against: Comparison) -> str:
    mark = "?" if against.p is None else "*" if against.decided else ""
    return f"Δ {plus_minus(against.difference, cell.quantity.digits, signed=True)}{' ' * bool(mark)}{mark}"


def _published(cell: Cell, printed: Printed) -> str:
    fact = printed.fact
    if printed.value is None:
        return "lost" if "missing" in fact.note else MISSING
    text = (
        fact.value
        + (f" ± {fact.sd} sd" if fact.sd else "")
        + (f" ({fact.temperature})" if fact.temperature else "")
    )
    if printed.difference is None or cell.mean is None:
        return text
    text = f"{text}: {printed.difference:+.{cell.quantity.digits}f}"
    widths = [cell.mean.half_width, printed.interval]
    counted = [f"{abs(printed.difference) / width:.1f}" for width in widths if width]
    return f"{text}, {' and '.join(counted)}×" if counted else text


def _footnotes(table: Table) -> tuple[tuple[str, str], ...]:
    found = dict.fromkeys(
        _remark(table.layout, cell.printed) for cell in table.flat if cell.printed is not None
    )
    return tuple((_letters(place), note) for place, note in enumerate(filter(None, found)))


def _remark(layout: Layout, printed: Printed) -> str:
    """What the published file says of a number, but for what stands below the table anyway."""
    return "; ".join(part for part in printed.fact.note.split("; ") if part not in layout.said)


def _letters(place: int) -> str:
    """A to z, then aa and so on."""
    rest, last = divmod(place, len(_LETTERS))
    return (_letters(rest - 1) if rest else "") + _LETTERS[last]
