"""From results and a layout to a table: means, tests, published numbers, and what must be said below it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant_lab.sweep.matching import matches
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.tables.cells import Cell, check_alone, make_cell, strays
from calibrant_lab.tables.comparisons import (
    Comparison,
    Correction,
    Test,
    adjust,
    against_all,
    compare,
)
from calibrant_lab.tables.headings import Heading, check_levels, headings
from calibrant_lab.tables.layout import Layout


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a table is computed.

    Attributes:
        against: The arm with which all others are compared, by its name in the table.
        test: Student's t, or an exact test by the signs of the differences.
        correction: How many tests are accounted for.
        published: Whether a paper's numbers stand beside ours.
        whole: Whether rows without runs stay.
        wanted: The settings of the runs that a grid wants, where it is known.
    """

    against: str | None = None
    test: Test = "t"
    correction: Correction = "holm"
    published: bool = True
    whole: bool = False
    wanted: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as data, before anyone decides how it looks.

    Attributes:
        layout: What it was made by.
        options: How it was computed.
        rows: Heads of the rows.
        columns: Heads of the columns.
        cells: By row, then column.
        left_out: Rows of the layout without runs that were left out.
        placed: How many runs stand in the table.
        unplaced: How many match no row and column of it.
        strays: Settings that vary within a cell besides what is repeated.
        num_against: How many comparisons with the arm were tested.
        num_best: How many groups were tested for a best one.
    """

    layout: Layout
    options: Options
    rows: tuple[Heading, ...]
    columns: tuple[Heading, ...]
    cells: tuple[tuple[Cell, ...], ...]
    left_out: int
    placed: int
    unplaced: int
    strays: tuple[str, ...]
    num_against: int
    num_best: int

    @property
    def flat(self) -> list[Cell]:
        """All cells."""
        return [cell for row in self.cells for cell in row]


def build_table(layout: Layout, results: Sequence[RunResult], options: Options | None = None) -> Table:
    """A table of results.

    Args:
        layout: Rows, columns and cells.
        results: The results of all runs, the failed and diverged ones too, which are counted.
        options: How it is computed.

    Raises:
        InputError: If the layout names settings that the runs do not have, several runs would count as one,
            or there is no arm of that name.
    """
    options = options or Options()
    chosen = [each for each in results if matches(each.settings, layout.where)]
    settings = [each.settings for each in chosen]
    check_levels(layout, settings)
    rows, columns = headings(layout, [*settings, *(options.wanted or ())])
    placed = [_places(each.settings, rows, columns) for each in chosen]
    by_place: dict[tuple[int, int], list[RunResult]] = defaultdict(list)
    for result, places in zip(chosen, placed, strict=True):
        for place in places:
            by_place[place].append(result)
    kept = list(range(len(rows)))
    if by_place and not options.whole:
        kept = [row for row in kept if any(place[0] == row for place in by_place)]
    counts = _counts(options.wanted, rows, columns)
    cells: list[list[Cell]] = []
    varying: dict[str, None] = {}
    for row in kept:
        line: list[Cell] = []
        for column, head in enumerate(columns):
            here = by_place.get((row, column), [])
            check_alone(layout, here, ", ".join([*rows[row].labels, *head.labels]) or "the table")
            varying |= dict.fromkeys(strays(layout, here))
            wanted = None if counts is None else counts[row, column]
            line.append(make_cell(layout, rows[row], head, here, wanted, published=options.published))
        cells.append(line)
    num_best, num_against = _judge(layout, cells, options)
    return Table(
        layout=layout,
        options=options,
        rows=tuple(rows[row] for row in kept),
        columns=columns,
        cells=tuple(tuple(line) for line in cells),
        left_out=len(rows) - len(kept),
        placed=sum(bool(places) for places in placed),
        unplaced=sum(not places for places in placed),
        strays=tuple(varying),
        num_against=num_against,
        num_best=num_best,
    )


def _places(
    settings: Mapping[str, Any], rows: Sequence[Heading], columns: Sequence[Heading]
) -> list[tuple[int, int]]:
    """Where a run stands: a row and a column for each quantity."""
    across = [place for place, head in enumerate(columns) if head.accepts(settings)]
    if not across:
        return []
    return [(row, column) for row, head in enumerate(rows) if head.accepts(settings) for column in across]


def _counts(
    wanted: Sequence[Mapping[str, Any]] | None, rows: Sequence[Heading], columns: Sequence[Heading]
) -> dict[tuple[int, int], int] | None:
    if wanted is None:
        return None
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for settings in wanted:
        for place in _places(settings, rows, columns):
            counts[place] += 1
    return counts


def _judge(layout: Layout, cells: list[list[Cell]], options: Options) -> tuple[int, int]:
    """Mark the best of each group, and compare with the arm; each question is a family of tests."""
    levels = layout.compare or _usual_arms(layout)
    groups: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            rest = tuple(repr(value) for level, value in cell.keys.items() if level not in levels)
            groups[rest, cell.quantity].append((row, column))
    num_best = _mark_best(groups.values(), cells, options)
    if options.against is None:
        return num_best, 0
    arms = list(dict.fromkeys(cell.named(levels) for line in cells for cell in line))
    arm = _arm(options.against, arms, levels, cells)
    pairs: list[tuple[int, int, Comparison]] = []
    for places in groups.values():
        base = next((cells[r][c] for r, c in places if cells[r][c].named(levels) == arm), None)
        if base is None or not base.values:
            continue
        for row, column in places:
            cell = cells[row][column]
            if cell is not base and cell.values:
                pairs.append((row, column, compare(cell.values, base.values, options.test)))
    judged = adjust([each for _, _, each in pairs], options.correction)
    for (row, column, _), found in zip(pairs, judged, strict=True):
        cells[row][column] = replace(cells[row][column], against=found)
    return num_best, sum(each.p is not None for each in judged)


def _mark_best(groups: Any, cells: list[list[Cell]], options: Options) -> int:
    found: list[tuple[int, int, Comparison]] = []
    for places in groups:
        there = [(row, column) for row, column in places if cells[row][column].values]
        better = cells[places[0][0]][places[0][1]].quantity.better
        if better is None or len(there) < 2:
            continue
        sign = 1 if better == "lower" else -1
        first = min(there, key=lambda place: sign * _value(cells[place[0]][place[1]]))
        others = [cells[row][column].values for row, column in there if (row, column) != first]
        found.append((*first, against_all(cells[first[0]][first[1]].values, others, options.test)))
    judged = adjust([each for _, _, each in found], options.correction)
    for (row, column, _), each in zip(found, judged, strict=True):
        if each.decided:
            cells[row][column] = replace(cells[row][column], best=True)
    return sum(each.p is not None for each in judged)


def _value(cell: Cell) -> float:
    return cell.mean.value if cell.mean is not None else float("nan")


def _usual_arms(layout: Layout) -> tuple[str, ...]:
    """What is compared if a layout does not say: losses, or else what the rows are."""
    usual = tuple(level for level in layout.levels if level in {"loss", "method"})
    return usual or layout.rows


def _arm(wanted: str, arms: Sequence[str], levels: Sequence[str], cells: list[list[Cell]]) -> str:
    """The arm of that name, as it stands in the table or in the paper."""
    if wanted in arms:
        return wanted
    for line in cells:
        for cell in line:
            if ", ".join(str(value) for level, value in cell.keys.items() if level in levels) == wanted:
                return cell.named(levels)
    raise InputError(f"--against: there is no {wanted!r} among {', '.join(levels)}{nearest(wanted, arms)}")
