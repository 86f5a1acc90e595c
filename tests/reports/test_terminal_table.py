"""Names in tables of the terminal: a narrow column breaks them between parts."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from calibrant.reports.terminal_table import Name


@pytest.mark.parametrize(
    ("name", "width", "lines"),
    [
        ("cross-entropy", 13, ["cross-entropy"]),
        ("cross-entropy", 11, ["cross-", "entropy"]),
        ("focal(gamma=2.5, alpha=1)", 17, ["focal(gamma=2.5,", "alpha=1)"]),
        ("runs/weight_decay/predictions.csv", 16, ["runs/weight_", "decay/", "predictions.csv"]),
        ("[bold]", 6, ["[bold]"]),
        ("abcdefgh", 5, ["abcde", "fgh"]),
        ("", 5, [""]),
    ],
)
def test_lines_end_after_parts(name, width, lines) -> None:
    """Within a word only where it is wider than the column; nothing is left out, markup is text."""
    table = Table.grid()
    table.add_column(width=width)
    table.add_row(Name(name))
    out = io.StringIO()
    Console(file=out, width=80).print(table)
    assert [line.rstrip() for line in out.getvalue().splitlines()] == lines
