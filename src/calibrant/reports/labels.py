"""The labels that are furthest off, in the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from calibrant.evaluation.phrases import number, percent
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.verdict.finding import is_shifted
from calibrant.reports.tables import class_pairs
from calibrant.reports.words import MISSING, count, shortened

MOST_SHOWN = 5
NAME = 24


def labels_down(evaluation: Evaluation) -> list[Table | Text]:
    """The labels with the largest errors; nothing where each sample has one label."""
    if evaluation.kind != "multilabel":
        return []
    pairs, level = class_pairs(evaluation), evaluation.settings.level
    repaired = any(pair.after for pair in pairs)
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    grid.add_column("Worst labels" if len(pairs) > MOST_SHOWN else "Label", overflow="fold")
    for title in ("Positive", "Predicted", "Actual", "ECE", *(["ECE after"] if repaired else [])):
        grid.add_column(title, justify="right")
    for pair in pairs[:MOST_SHOWN]:
        row, off = pair.before, is_shifted(pair.before, level)
        cells = [
            Text(shortened(row.name, most=NAME), style="bold" if off else ""),
            count(row.count),
            f"{percent(row.mean_probability)}{' *' if off else '  '}",
            percent(row.prevalence),
            number(row.ece),
        ]
        grid.add_row(*cells, *([number(pair.after.ece) if pair.after else MISSING] if repaired else []))
    said = "*: significant after correcting for the number of labels."
    left = len(pairs) - MOST_SHOWN
    said += f" The report shows the other {left}." if left > 0 else ""
    return [Text(), grid, Text(said, style="dim")]
