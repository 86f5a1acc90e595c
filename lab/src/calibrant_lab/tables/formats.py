r"""Table formats: terminal, Markdown, LaTeX, tidy CSV and HTML."""

from __future__ import annotations

import io
import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import pandas as pd
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from calibrant._math.means import Mean
from calibrant.reports.html import templates
from calibrant_lab.tables.build import SIGNIFICANCE, Cell, Table
from calibrant_lab.tables.words import Line, Shown, show

_WIDEST = 4000  # characters of a line without a terminal: as many as the table needs
_NOTES = 100
_SIGNS = """
α alpha β beta γ gamma δ delta ε varepsilon ζ zeta η eta θ theta ι iota κ kappa λ lambda μ mu ν nu

ξ xi π pi ρ rho σ sigma τ tau φ varphi χ chi ψ psi ω omega Γ Gamma Δ Delta Θ Theta

Λ Lambda Ξ Xi Π Pi Σ Sigma Φ Phi Ψ Psi Ω Omega
± pm × times → rightarrow ≈ approx ≠ neq ∞ infty ≤ leq ≥ geq ↔ leftrightarrow
"""
_NAMED = r'\ backslash ~ asciitilde ^ asciicircum < less > greater | bar ` asciigrave " quotedbl'
_SPECIAL = {
    **{sign: rf"$\{name}$" for sign, name in zip(*[iter(_SIGNS.split())] * 2, strict=True)},
    **{sign: rf"\text{name}{{}}" for sign, name in zip(*[iter(_NAMED.split())] * 2, strict=True)},
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"{{{sign}}}" for sign in "[*"},  # after a line's end they would be its own
    "−": "$-$",
    "–": "--",
}
_FIT = (
    r"\resizebox*{!}{\ifdim\totalheight>0.7\textheight 0.7\textheight\else\totalheight\fi}{%",
    r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
)
_NUMBERS = """
quantity unit stage mean low high n values bracket finished diverged failed wanted best
difference difference_low difference_high p p_adjusted test
published published_sd published_temperature difference_from_published published_note
"""
"""Columns of the CSV file after the levels."""


# ---------------------------------------------------------------- terminal


def terminal_text(table: Table) -> str:
    buffer = io.StringIO()
    Console(file=buffer, width=_WIDEST, color_system=None).print(rendered(table))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def rendered(table: Table, *, width: int | None = None) -> RenderableType:
    """Return the table for a console, in blocks if it exceeds ``width``."""
    shown = show(table)
    below = Grid.grid()
    below.add_column(width=min(width or _NOTES, _NOTES), overflow="fold")
    for note in [*shown.notes, *(f"{letter}  {note}" for letter, note in shown.footnotes)]:
        below.add_row(Text(note, style="dim"))
    title = [Text(shown.title, style="bold"), Text()] if shown.title else []
    blocks = [_grid(shown, columns) for columns in _blocks(shown, width or _WIDEST)]
    return Group(*title, *(part for block in blocks for part in (block, Text())), below)


def _blocks(shown: Shown, width: int) -> list[list[int]]:
    words = [*zip(shown.levels, *shown.rows, strict=True)]
    first = sum(2 + max(map(len, each)) for each in words)
    blocks: list[list[int]] = [[]]
    room = width - first
    for column, above in enumerate(shown.columns):
        lines = [_words(line) for row in shown.cells for line in row[column]]
        needed = 2 + max(map(len, [*above, *lines]))
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
        head = Text("\n".join(shown.columns[column]), justify="right")
        grid.add_column(head, justify="right", no_wrap=True)
    for place, (labels, cells) in enumerate(zip(shown.rows_once, shown.cells, strict=True), 1):
        inside = (_cell(cells[column]) for column in columns)
        grid.add_row(*map(Text, labels), *inside, end_section=tall and place < len(shown.cells))
    return grid


def _cell(lines: Sequence[Line]) -> Text:
    styles = ("bold" if line.best else "dim" if place else "" for place, line in enumerate(lines))
    return Text("\n").join(map(Text, map(_words, lines), styles))


def _words(line: Line) -> str:
    """Return a line's text without bold and superscripts."""
    return f"{'▸ ' if line.best else ''}{line.text}{f' {line.marks}' if line.marks else ''}"


# ---------------------------------------------------------------- Markdown


def markdown_text(table: Table) -> str:
    shown = show(table)
    heads = [*shown.levels, *(", ".join(words) for words in shown.columns)]
    ruler = ["---"] * len(shown.levels) + ["---:"] * len(shown.columns)
    rows = [
        [*map(_markdown, labels), *("<br>".join(map(_markdown_line, cell)) for cell in cells)]
        for labels, cells in zip(shown.rows, shown.cells, strict=True)
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in (map(_markdown, heads), ruler, *rows)]
    title = [f"**{_markdown(shown.title)}**", ""] if shown.title else []
    notes = [f"{_markdown(note)}\n" for note in shown.notes]
    footnotes = [f"<sup>{letter}</sup> {_markdown(note)}\n" for letter, note in shown.footnotes]
    return "\n".join([*title, *lines, "", *notes, *footnotes]).rstrip("\n") + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<\[\]])", r"\\\1", text)


def _markdown_line(line: Line) -> str:
    text = _markdown(line.text)
    return (f"**{text}**" if line.best else text) + (f"<sup>{line.marks}</sup>" if line.marks else "")


# ---------------------------------------------------------------- LaTeX


def latex_text(table: Table) -> str:
    r"""Return a floating table for ``\usepackage{booktabs}``, scaled to the page width."""
    shown = show(table)
    words = len(shown.levels)
    body = [
        " & ".join([*(map(escaped, labels) if place == 0 else [""] * words), *map(_latex_line, lines)])
        + r" \\"
        for labels, cells in zip(shown.rows_once, shown.cells, strict=True)
        for place, lines in enumerate(itertools.zip_longest(*cells))
    ]
    lines = [
        r"% \usepackage[T1]{fontenc}, \usepackage{booktabs} and \usepackage{graphicx}",
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{escaped(shown.title)}}}"] if shown.title else []),
        *_FIT,
        rf"\begin{{tabular}}{{{'l' * words}{'r' * len(shown.columns)}}}",
        r"\toprule",
        *_latex_heads(shown),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}}}",
        "",
        r"\medskip",
        r"\begin{minipage}{\linewidth}\footnotesize",
        *(rf"{escaped(note)}\par" for note in shown.notes),
        *(rf"\textsuperscript{{{letter}}}~{escaped(note)}\par" for letter, note in shown.footnotes),
        r"\end{minipage}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Escape text for LaTeX.

    Example:
        >>> print(escaped("50 % of a_b ± 1"))
        50 \% of a\_b $\pm$ 1
    """
    words = "".join(_SPECIAL.get(letter, letter) for letter in text)
    return re.sub(r"(?<![\w.)}-])-(?=\d)", "$-$", words)


def _latex_heads(shown: Shown) -> list[str]:
    """Return a line per level, with rules below heads over several columns."""
    found: list[str] = []
    for level, spans in enumerate(shown.heads, 1):
        last = level == len(shown.heads)
        cells = [escaped(name) if last else "" for name in shown.levels]
        cells += [
            escaped(text) if last else rf"\multicolumn{{{n}}}{{c}}{{{escaped(text)}}}" for text, n in spans
        ]
        found.append(" & ".join(cells) + r" \\")
        ends = [*itertools.accumulate((n for _, n in spans), initial=len(shown.levels))]
        rules = [rf"\cmidrule(lr){{{start + 1}-{end}}}" for start, end in itertools.pairwise(ends)]
        found += [] if last else [" ".join(rules)]
    return found


def _latex_line(line: Line | None) -> str:
    if line is None:
        return ""
    text = escaped(line.text)
    if line.kind == "value":
        return rf"\textbf{{{text}}}" if line.strong else text
    marks = rf"\textsuperscript{{{line.marks}}}" if line.marks else ""
    return rf"{{\footnotesize {text}{marks}}}"


# ---------------------------------------------------------------- CSV, HTML


def csv_text(table: Table) -> str:
    """Return a row per cell: 95% intervals, twelve digits, ``values`` as JSON by seed."""
    levels, counted = table.layout.levels, table.options.wanted is not None
    cells: list[Any] = [*table.cells.itertuples()]
    rows = [[*(each.keys.get(level) for level in levels), *_numbers(each, counted=counted)] for each in cells]
    return pd.DataFrame(rows, columns=[*levels, *_NUMBERS.split()], dtype=object).to_csv(
        index=False, lineterminator="\n"
    )


def _numbers(row: Any, *, counted: bool) -> list[Any]:
    cell, fact = cast("Cell", row), cast("Cell", row).fact
    values = {str(key): float(f"{value:.12g}") for key, value in cell.values.items()}
    shown = [cell.quantity.title, cell.quantity.unit, " | ".join(cell.stages), *_ends(row.mean)]
    runs = [cell.runs[status] for status in ("finished", "diverged", "failed")]
    wanted = cell.runs["wanted"] if counted else None
    tested = [int(row.best_p < SIGNIFICANCE), *_ends(row.difference), row.p, row.adjusted, row.test]
    printed = [fact.value, fact.sd, fact.temperature, cell.beyond, fact.note] if fact else [None] * 5
    found = [*shown, len(values), json.dumps(values), cell.bracket, *runs, wanted, *tested, *printed]
    return [f"{each:.12g}" if isinstance(each, float) and not math.isnan(each) else each for each in found]


def _ends(mean: Mean | float | None) -> tuple[float | None, ...]:
    if not isinstance(mean, Mean):
        return None, None, None
    return mean.value, *((None, None) if mean.half_width is None else (mean.low, mean.high))


def html_text(table: Table) -> str:
    shown = show(table)
    return templates().get_template("result_table.html").render(shown=shown, heads=shown.heads)


FORMATS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "terminal": (".txt", terminal_text),
    "markdown": (".md", markdown_text),
    "latex": (".tex", latex_text),
    "csv": (".csv", csv_text),
    "html": (".html", html_text),
}
"""The ending of files and how a table is written, by name, in the order of the help text."""
