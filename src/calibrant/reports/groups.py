"""The table by group, in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from calibrant.evaluation.group_repairs import ARMS, ByGroup, said_of
from calibrant.evaluation.result import Evaluation, GroupRow
from calibrant.evaluation.thresholds import beyond_chance
from calibrant.reports.words import count, interval, number, shortened

MOST_SHOWN = 12  # in the terminal
NAME = 20


@dataclass(frozen=True)
class GroupPair:
    """A group before and after the recommended calibrator, ``None`` where none is recommended."""

    before: GroupRow
    after: GroupRow | None
    real: bool
    """Whether its error is more than chance, after adjustment."""

    @property
    def p_value(self) -> str:
        """The p-value of the group alone."""
        row = self.before
        bound = "≤ " if row.p_value <= 1 / (1 + row.null.num_draws) else ""
        return f"{bound}{row.p_value:.2g}"

    @property
    def adjusted_p(self) -> str:
        """The p-value adjusted for the number of groups; a bound where the p-value is one."""
        bound = "≤ " if self.p_value.startswith("≤") and self.before.adjusted_p < 1 else ""
        return f"{bound}{self.before.adjusted_p:.2g}"


def group_pairs(evaluation: Evaluation) -> list[GroupPair]:
    """Every group of the predictions as they came, the surest findings first, then the largest gaps."""
    name = evaluation.verdict.recommended
    chosen = None if name == evaluation.arms[0].name else evaluation.arm(name)
    after = {} if chosen is None else {row.name: row for row in chosen.groups}
    level = evaluation.settings.level
    pairs = [
        GroupPair(row, after.get(row.name), beyond_chance(row.adjusted_p, level))
        for row in evaluation.arms[0].groups
    ]
    return sorted(
        pairs, key=lambda pair: (not pair.real, pair.before.vague, -abs(pair.before.gap.value or 0))
    )


def groups_down(evaluation: Evaluation, repairs: ByGroup | None = None) -> list[Table | Text]:
    """The table in short, and what repairs make of each group; nothing where there are no groups."""
    pairs = group_pairs(evaluation)
    mended = [] if repairs is None else [Text(), *_repairs_down(repairs)]
    if not pairs:
        return mended
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    grid.add_column("Group", overflow="fold")
    for title in ("Samples", "Predicted", "Actual", "ECE"):
        grid.add_column(title, justify="right")
    for pair in pairs[:MOST_SHOWN]:
        row = pair.before
        grid.add_row(
            Text(shortened(row.name, most=NAME), style="bold" if pair.real else ""),
            count(row.count),
            number(row.predicted.value),
            Text(number(row.actual.value)).append(f"\n{interval(row.actual, between='–')}", style="dim"),
            Text(number(row.ece.value)).append(
                f"\np {pair.p_value}{' *' if pair.real else ' ?' if pair.before.vague else ''}", style="dim"
            ),
        )
    hint = "Groups differ: --by-group tells whether a calibrator for each group helps."
    told = [Text(hint)] if repairs is None and len(pairs) > 1 and any(pair.real for pair in pairs) else []
    return [Text(), grid, *_below(pairs), *told, *mended]


def _repairs_down(repairs: ByGroup) -> list[Table | Text]:
    """What one repair for all, one for each group and multicalibration make of each group."""
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    grid.add_column("Group", overflow="fold")
    for arm in ARMS:
        grid.add_column(arm.capitalize(), justify="right")
    for row in repairs.rows[: MOST_SHOWN + 1]:
        cells = [
            Text(number(gap.value, signed=True))
            .append(f"\n{interval(gap, between=', ', signed=True)}", style="dim")
            .append(f"\nNLL {number(loss.value)}")
            for gap, loss in zip(row.gaps, row.losses, strict=True)
        ]
        name = Text(shortened(row.name or "all", most=NAME)).append(f"\n{count(row.count)}", style="dim")
        grid.add_row(name, *cells)
    title = f"Stated minus true, and NLL, by group; repairs are {repairs.method}, fitted on other samples:"
    return [Text(title), grid, Text(said_of(repairs.rows), style="dim")]


def _below(pairs: Sequence[GroupPair]) -> list[Text]:
    """What the marks mean, and how many groups are left out."""
    said: list[str] = []
    if any(pair.real for pair in pairs[:MOST_SHOWN]):
        adjusted = f", also after Holm's adjustment for {len(pairs)} groups" if len(pairs) > 1 else ""
        said.append(f"*: more than chance{adjusted}")
    if any(pair.before.vague and not pair.real for pair in pairs[:MOST_SHOWN]):
        said.append("?: too few samples to tell a gap of 5 points")
    if len(pairs) > MOST_SHOWN:
        said.append(f"{len(pairs) - MOST_SHOWN} more groups stand in the report")
    return [Text(f"{'; '.join(said)}.", style="dim")] if said else []
