"""What must be said below a table: what ± means, which tests were made, which runs are missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from calibrant_lab.sweep.published import paper_named
from calibrant_lab.tables.build import Table
from calibrant_lab.tables.cells import Cell
from calibrant_lab.tables.comparisons import FEWEST, SIGNIFICANCE, Correction
from calibrant_lab.tables.names import roster

CORRECTION_WORDS: Mapping[Correction, str] = {
    "holm": "adjusted by Holm's method over",
    "benjamini-hochberg": "adjusted by Benjamini and Hochberg's method over",
    "none": "not adjusted for the",
}
_MOST = 6
"""Cells that are named one by one."""


def notes(table: Table) -> list[str]:
    """The sentences below a table, in order."""
    return [
        *_means(table),
        *_best(table),
        *_against(table),
        *_published(table),
        *_stages(table),
        *_given(table),
        *_unfinished(table),
        *_missing(table),
    ]


def usual_count(table: Table) -> int:
    """The number of seeds of most cells."""
    counts = Counter(cell.mean.n for cell in table.flat if cell.mean)
    return max(counts, key=lambda n: (counts[n], n), default=0)


def _means(table: Table) -> Iterator[str]:
    repeat, n = table.layout.repeat, usual_count(table)
    if n == 0:
        yield "No run stands in this table."
        return
    differ = any(cell.mean and cell.mean.n != n for cell in table.flat)
    said = f"n = {n}" + (" unless said" if differ else "")
    if n == 1 and not differ:
        yield f"One run a cell ({repeat}): no interval."
        return
    yield (
        f"Mean ± half the width of the 95 % interval (Student's t) over {repeat}, {said}. The interval is "
        f"about trainings: what another {repeat} would give on the same test samples, not what other test "
        "samples would."
    )
    if table.strays:
        yield f"Within a cell the runs also differ in {', '.join(table.strays)}."


def _best(table: Table) -> Iterator[str]:
    if table.num_best:
        there = any(cell.best for cell in table.flat)
        yield (
            f"Bold{'' if there else ' (here none)'}: the best of those compared, told from each of the "
            f"others by a paired two-sided {_test(table)}, the largest p-value "
            f"{_family(table, table.num_best, 'group')}, below {SIGNIFICANCE:g}."
        )
    elif any(cell.quantity.better for cell in table.flat):
        shared = f"{FEWEST} {table.layout.repeat}s in common"
        yield f"Nothing is bold: no group has two arms or more with {shared}."


def _against(table: Table) -> Iterator[str]:
    if table.options.against is None:
        return
    found = [cell.against for cell in table.flat if cell.against is not None]
    degrees = sorted({each.difference.n - 1 for each in found if each.p is not None and each.difference})
    ends = " to ".join(dict.fromkeys(map(str, [degrees[0], degrees[-1]]))) if degrees else ""
    df = f" (df = {ends})" if ends and table.options.test == "t" else ""
    tested = (
        f"; * where a two-sided {_test(table)}{df}, {_family(table, table.num_against, 'comparison')}, gives "
        f"p < {SIGNIFICANCE:g}"
    )
    yield (
        f"Δ: difference from {table.options.against}, paired by {table.layout.repeat}, with its 95 % "
        f"interval{tested if table.num_against else ''}."
    )
    undecidable = sum(each.p is None for each in found)
    if undecidable:
        yield (
            f"? stands where nothing can be decided ({undecidable} of {len(found)} comparisons): fewer than "
            f"{FEWEST} {table.layout.repeat}s in common."
        )
    flipped = {each.difference.n for each in found if each.test.startswith("sign-flip") and each.difference}
    if flipped and 2 / 2 ** max(flipped) >= SIGNIFICANCE:
        yield (
            f"With {max(flipped)} {table.layout.repeat}s a test of the signs cannot fall below "
            f"p = {2 / 2 ** max(flipped):g}, so by it nothing is decided."
        )


def _test(table: Table) -> str:
    return "t test" if table.options.test == "t" else "exact test that flips signs"


def _family(table: Table, count: int, what: str) -> str:
    return f"{CORRECTION_WORDS[table.options.correction]} {count} {what}{'s' * (count != 1)}"


def _published(table: Table) -> Iterator[str]:
    printed = [cell.printed for cell in table.flat if cell.printed]
    if not printed:
        return
    paper = paper_named(table.layout.paper or "")
    yield (
        f"Second line: the number of {paper.title}, Table {table.layout.table}, its temperature in brackets"
        + _difference_words(table, spread=bool(paper.runs))
    )
    replaced = dict.fromkeys(each for cell in table.flat for each in cell.stand_ins if not cell.row.exact)
    if replaced:
        yield f"{'; '.join(replaced)}."


def _difference_words(table: Table, *, spread: bool) -> str:
    if not any(cell.printed and cell.printed.difference is not None for cell in table.flat):
        return "."
    theirs = ", and how many of theirs by their standard deviation" if spread else ""
    return f"; then ours less theirs, and how many half-widths of our interval that is{theirs}."


def _stages(table: Table) -> Iterator[str]:
    """Where another calibrator stands in for the one that the layout asks for first."""
    found: dict[str, None] = {}
    for cell in table.flat:
        wanted = cell.quantity.stage
        for stage in cell.stages:
            if wanted and stage != wanted[0]:
                found[f"{cell.quantity.title}: {wanted[0]} is asked for, the runs have {stage}"] = None
        if len(cell.stages) > 1:
            found[f"{cell.quantity.title}: stages differ among the runs"] = None
    if found:
        yield f"{'; '.join(found)}."


def _given(table: Table) -> Iterator[str]:
    """The notes of the layout and its paper, but for those that begin with a data set that is not shown."""
    known = roster()
    there = {cell.keys.get("dataset") for cell in table.flat}
    for note in (*table.layout.notes, *known["notes"].get(table.layout.paper or "", ())):
        about = [dataset for dataset in known["datasets"] if note.startswith((f"{dataset}:", f"{dataset} "))]
        if not about or there & {*about}:
            yield note


def _unfinished(table: Table) -> Iterator[str]:
    """Runs that diverged or failed, cell by cell; the quantities of a cell share their runs."""
    for status, said in (("diverged", "Diverged"), ("failed", "Failed")):
        found: dict[str, str] = {}
        for cell in table.flat:
            if cell.runs.get(status):
                runs = sum(cell.runs.values())
                found[_place(cell)] = (
                    f"{cell.runs[status]} of {runs} {_plural('run', runs)} of {_place(cell)}"
                )
        if found:
            yield f"{said}, and in no mean: {_listed(list(found.values()))}."
    reasons: dict[str, int] = defaultdict(int)
    for cell in table.flat:
        for why, count in cell.undefined.items():
            if why:
                reasons[f"{cell.quantity.title}: {why}"] += count
    if reasons:
        told = [f"{why} ({count} {_plural('run', count)})" for why, count in reasons.items()]
        yield f"Without a value: {_listed(told)}."


def _missing(table: Table) -> Iterator[str]:
    if table.options.wanted is not None:
        short = {
            _place(cell): f"{sum(cell.runs.values())} of {cell.wanted} of {_place(cell)}"
            for cell in table.flat
            if cell.wanted is not None and sum(cell.runs.values()) < cell.wanted
        }
        if short:
            yield f"Runs still missing from the grid; there are {_listed(list(short.values()))}."
    if table.left_out:
        yield f"{table.left_out} {_plural('row', table.left_out)} without runs left out."
    if table.unplaced:
        yield f"{table.unplaced} {_plural('run', table.unplaced)} of the store match no row and column."


def _place(cell: Cell) -> str:
    return ", ".join([*cell.row.labels, *cell.column.labels]) or "the table"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _listed(entries: list[str]) -> str:
    more = len(entries) - _MOST
    return "; ".join(entries[:_MOST]) + (f"; and {more} more" if more > 0 else "")
