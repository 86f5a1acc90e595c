"""A table's texts and notes, before formatting."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import pandas as pd

from calibrant._math.means import plus_minus
from calibrant._math.text_form import plural
from calibrant_lab.sweep.published import paper_named
from calibrant_lab.tables.build import FEWEST, SIGNIFICANCE, Cell, Correction, Table, Test
from calibrant_lab.tables.names import roster

MISSING = "–"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = {"data.name": "data", "training.epochs": "epochs"}
_CORRECTIONS: Mapping[Correction, str] = {
    "holm": "adjusted by Holm's method over",
    "benjamini-hochberg": "adjusted by Benjamini and Hochberg's method over",
    "none": "not adjusted for the",
}
_TESTS: Mapping[Test, str] = {"t": "t test", "sign-flip": "exact test that flips signs"}
_MOST = 6  # cells that are named one by one


class Line(NamedTuple):
    """Line of a cell; ``marks`` are letters of footnotes."""

    text: str
    kind: Literal["value", "difference", "published"]
    strong: bool = False
    marks: str = ""

    @property
    def best(self) -> bool:
        return self.strong and self.kind == "value"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Texts of a table."""

    title: str  # title of the table
    levels: Sequence[str]  # what the words before each row are
    rows: Sequence[tuple[str, ...]]  # these words
    columns: Sequence[tuple[str, ...]]  # the words above each column, all of the same number
    cells: Sequence[Sequence[Sequence[Line]]]  # lines, by row and column
    notes: Sequence[str]  # sentences below the table
    footnotes: Sequence[tuple[str, str]]  # what the letters mean

    @property
    def rows_once(self) -> list[tuple[str, ...]]:
        """Return the words before each row, without those repeated from above."""
        before = [(), *self.rows]
        return [
            tuple("" if row[: place + 1] == above[: place + 1] else word for place, word in enumerate(row))
            for above, row in zip(before, self.rows, strict=False)
        ]

    @property
    def heads(self) -> list[list[tuple[str, int]]]:
        """Return the words of each level above the columns, with column counts."""
        found = [[(words[-1], 1) for words in self.columns]]
        for level in range(len(self.columns[0]) - 1 if self.columns else 0, 0, -1):
            groups = itertools.groupby(self.columns, lambda words, level=level: words[:level])
            found.insert(0, [(words[-1], len([*group])) for words, group in groups])
        return found


def show(table: Table) -> Shown:
    found = [cell.fact.note.split("; ") if cell.fact else [] for cell in table.flat]
    remarks = ["; ".join(part for part in parts if part not in table.layout.said) for parts in found]
    letters = {remark: _letter(place) for place, remark in enumerate(filter(None, dict.fromkeys(remarks)))}
    usual, across = _usual_count(table.flat), len(table.columns)
    rows: list[Any] = [*table.cells.itertuples()]
    lines = [_lines(row, usual, letters.get(mark, "")) for row, mark in zip(rows, remarks, strict=True)]
    levels = [_WORDS.get(level, level) for level in table.layout.rows]
    return Shown(
        title=table.layout.title,
        levels=[*levels, ""] if table.layout.quantities == "rows" else levels,
        rows=table.rows,
        columns=table.columns,
        cells=[lines[start : start + across] for start in range(0, len(lines), across or 1)],
        notes=notes(table),
        footnotes=[(letter, remark) for remark, letter in letters.items()],
    )


def _usual_count(cells: Iterable[Cell]) -> int:
    counts = Counter(cell.mean.n for cell in cells if cell.mean)
    return max(counts, key=lambda n: (counts[n], n), default=0)


def _letter(place: int) -> str:
    rest, last = divmod(place, len(_LETTERS))
    return (_letter(rest - 1) if rest else "") + _LETTERS[last]


def _lines(row: Any, usual: int, mark: str) -> list[Line]:
    cell = cast("Cell", row)
    found = [Line(_value(cell, usual), "value", strong=row.best_p < SIGNIFICANCE)]
    if pd.notna(row.difference):
        decided = row.adjusted < SIGNIFICANCE
        sign = " ?" if pd.isna(row.p) else " *" if decided else ""
        text = f"Δ {plus_minus(row.difference, cell.quantity.digits, signed=True)}{sign}"
        found.append(Line(text, "difference", strong=decided))
    if cell.fact:
        found.append(Line(_published(cell), "published", marks=mark))
    return found


def _value(cell: Cell, usual: int) -> str:
    runs, wanted = _count(cell), cell.runs["wanted"]
    if cell.mean is None:
        return f"{MISSING} (0 of {runs or wanted})" if runs or wanted else MISSING
    text = plus_minus(cell.mean, cell.quantity.digits)
    if cell.bracket is not None:
        text += f" ({cell.bracket:.2f})"
    return text if cell.mean.n == usual else f"{text} [n = {cell.mean.n}]"


def _count(cell: Cell) -> int:
    return cell.runs.total() - cell.runs["wanted"]


def _published(cell: Cell) -> str:
    fact = cell.fact
    if fact is None or not fact.value:
        return "lost" if fact and "missing" in fact.note else MISSING
    text = fact.value
    text += f" ± {fact.sd} sd" if fact.sd else ""
    text += f" ({fact.temperature})" if fact.temperature else ""
    if cell.beyond is None or cell.mean is None:
        return text
    text += f": {cell.beyond:+.{cell.quantity.digits}f}"
    counted = [f"{abs(cell.beyond) / width:.1f}" for width in (cell.mean.half_width, cell.theirs) if width]
    return f"{text}, {' and '.join(counted)}×" if counted else text


# ---------------------------------------------------------------- notes


def notes(table: Table) -> list[str]:
    """Return the notes below a table: the meaning of ±, tests, missing runs."""
    cells = table.flat
    parts = (_means, _best, _against, _beside, _stages, _given, _unfinished, _missing)
    return [note for part in parts for note in part(table, cells)]


def _means(table: Table, cells: Sequence[Cell]) -> Iterator[str]:
    repeat, counts = table.layout.repeat, {cell.mean.n for cell in cells if cell.mean}
    if not counts:
        yield "This table has no runs."
    elif counts == {1}:
        yield f"One run a cell ({repeat}): no interval."
    else:
        n = f"n = {_usual_count(cells)}{' unless said' * (len(counts) > 1)}"
        yield (
            f"Mean ± half the width of the 95% interval (Student's t) over {repeat}, {n}. The interval is "
            f"about trainings: what another {repeat} would give on the same test samples, not what other "
            "test samples would."
        )
        if table.strays:
            yield f"Within a cell the runs also differ in {', '.join(table.strays)}."


def _best(table: Table, cells: Sequence[Cell]) -> Iterator[str]:
    tested = [p for p in table.cells["best_p"] if pd.notna(p)]
    if tested:
        yield (
            f"Bold{'' if min(tested) < SIGNIFICANCE else ' (here none)'}: the best of those compared, "
            f"told from each of the others by a paired two-sided {_TESTS[table.options.test]}, the largest "
            f"p-value {_family(table, len(tested), 'group')}, below {SIGNIFICANCE:g}."
        )
    elif any(cell.quantity.better for cell in cells):
        shared = f"{FEWEST} {table.layout.repeat}s in common"
        yield f"Nothing is bold: no group has two arms or more with {shared}."


def _against(table: Table, _: Sequence[Cell]) -> Iterator[str]:
    if table.options.against is None:
        return
    found, repeat = table.cells.dropna(subset=["test"]), table.layout.repeat
    tested: Any = found.dropna(subset=["p"])
    seeds = tested["difference"].map(lambda gap: gap.n)
    degrees = " to ".join(dict.fromkeys([f"{seeds.min() - 1}", f"{seeds.max() - 1}"]))
    test = _TESTS[table.options.test] + f" (df = {degrees})" * (table.options.test == "t")
    family = _family(table, len(tested), "comparison")
    said = f"; * where a two-sided {test}, {family}, gives p < {SIGNIFICANCE:g}" if len(tested) else ""
    yield f"Δ: difference from {table.options.against}, paired by {repeat}, with its 95% interval{said}."
    if len(tested) < len(found):
        yield (
            f"? stands where nothing can be decided ({len(found) - len(tested)} of {len(found)} "
            f"comparisons): fewer than {FEWEST} {repeat}s in common."
        )
    flipped = seeds[tested["test"].str.startswith("sign-flip")]
    if len(flipped) and 2 / 2 ** flipped.max() >= SIGNIFICANCE:
        yield (
            f"With {flipped.max()} {repeat}s a test of the signs cannot fall below "
            f"p = {2 / 2 ** flipped.max():g}, so by it nothing is decided."
        )


def _family(table: Table, count: int, what: str) -> str:
    return f"{_CORRECTIONS[table.options.correction]} {plural(count, what)}"


def _beside(table: Table, cells: Sequence[Cell]) -> Iterator[str]:
    if not any(cell.fact for cell in cells):
        return
    paper = paper_named(table.layout.paper or "")
    theirs = ", and how many of theirs by their standard deviation" if paper.runs else ""
    beyond = f"; then ours less theirs, and how many half-widths of our interval that is{theirs}"
    yield (
        f"Second line: the number of {paper.title}, Table {table.layout.table}, its temperature in brackets"
        f"{beyond if any(cell.beyond is not None for cell in cells) else ''}."
    )
    yield from _sentence(each for cell in cells for each in cell.stand_ins)


def _stages(_: Table, cells: Sequence[Cell]) -> Iterator[str]:
    """Note the cells with another calibrator than the layout's first choice."""
    found: list[str] = []
    for cell in cells:
        title = cell.quantity.title
        for wanted in cell.quantity.stage[:1]:
            others = [stage for stage in cell.stages if stage != wanted]
            found += [f"{title}: wanted {wanted}, runs have {each}" for each in others]
        if len(cell.stages) > 1:
            found.append(f"{title}: stages differ among the runs")
    yield from _sentence(found)


def _given(table: Table, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the notes of the layout and its paper, without those for other datasets."""
    there = {cell.keys.get("dataset") for cell in cells}
    for note in (*table.layout.notes, *roster()["notes"].get(table.layout.paper, ())):
        about = {each for each in roster()["datasets"] if note.startswith((f"{each}:", f"{each} "))}
        if not about or there & about:
            yield note


def _unfinished(_: Table, cells: Sequence[Cell]) -> Iterator[str]:
    """Note diverged and failed runs, cell by cell; a cell's quantities share their runs."""
    for status in ("diverged", "failed"):
        lost = [cell for cell in cells if cell.runs[status]]
        told = [f"{cell.runs[status]} of {plural(_count(cell), 'run')} of {cell.at}" for cell in lost]
        if told:
            yield f"{status.capitalize()}, and in no mean: {_listed(told)}."
    reasons = Counter[str]()
    for cell in cells:
        reasons.update({f"{cell.quantity.title}: {why}": n for why, n in cell.undefined.items() if why})
    if reasons:
        told = [f"{why} ({plural(count, 'run')})" for why, count in reasons.items()]
        yield f"Without a value: {_listed(told)}."


def _missing(table: Table, cells: Sequence[Cell]) -> Iterator[str]:
    short = [cell for cell in cells if _count(cell) < cell.runs["wanted"]]
    if short:
        told = [f"{_count(cell)} of {cell.runs['wanted']} of {cell.at}" for cell in short]
        yield f"Runs still missing from the grid; there are {_listed(told)}."
    if table.left_out:
        yield f"{plural(table.left_out, 'row')} without runs left out."
    if table.unplaced:
        yield f"{plural(table.unplaced, 'run')} of the store match no row and column."


def _sentence(parts: Iterable[str]) -> list[str]:
    said = "; ".join(dict.fromkeys(parts))
    return [f"{said}."] if said else []


def _listed(entries: Sequence[str]) -> str:
    told = [*dict.fromkeys(entries)]
    more = f"; and {len(told) - _MOST} more" if len(told) > _MOST else ""
    return "; ".join(told[:_MOST]) + more
