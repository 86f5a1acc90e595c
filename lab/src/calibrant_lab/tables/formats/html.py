"""A table as one HTML file that needs no network, in the style of the reports."""

from __future__ import annotations

from calibrant.reports.html import templates
from calibrant_lab.tables.build import Table
from calibrant_lab.tables.shown import show, spans


def html_text(table: Table) -> str:
    """The page."""
    shown = show(table)
    heads = [spans(shown.columns, level) for level in range(len(shown.columns[0]))]
    return templates().get_template("result_table.html").render(shown=shown, heads=heads)
