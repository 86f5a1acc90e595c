"""The table by group, in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from calibrant.evaluation.group_repairs import ARMS, ByGroup, said_of
from calibrant.evaluation.quantities import ACCURACY
from calibrant.evaluation.result import Evaluation, GroupRow
from calibrant.evaluation.thresholds import beyond_chance
from calibrant.reports.words import brief, count, interval, number, shortened

MOST_SHOWN = 12  # in the terminal
NAME = 20


@dataclass(frozen=True)
class GroupPair:
    """A group before and after the recommended calibrator, ``None`` where none is recomrepaired."""

    before: GroupRow
    after: GroupRow | None
    real: bool
    """Whether its error is above noise, after adjustment."""

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
    """Every group of the predictions as they came, the clearest findings first, then the largest gaps."""
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
    repaired = [] if repairs is None else [Text(), *_repairs_down(repairs)]
    if not pairs:
        return repaired
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    grid.add_column("Group", overflow="fold")
    for title in ("Samples", "Predicted", "Actual", "ECE"):
        grid.add_column(title, justify="right")
    for pair in pairs[:MOST_SHOWN]:
        row = pair.before
        grid.add_row(
            Text(shortened(row.name, most=NAME), style="bold" if pair.real else ""),
            count(row.count),
            brief(row.predicted, ACCURACY.key)[0],
            Text("\n").join(map(Text, brief(row.actual, ACCURACY.key))),
            Text(brief(row.ece)[0]).append(
                f"\np {pair.p_value}{' *' if pair.real else ' ?' if pair.before.vague else ''}", style="dim"
            ),
        )
    hint = "Groups differ: --by-group tests whether one calibrator per group helps."
    told = [Text(hint)] if repairs is None and len(pairs) > 1 and any(pair.real for pair in pairs) else []
    return [Text(), grid, *_below(pairs), *told, *repaired]


def _repairs_down(repairs: ByGroup) -> list[Table | Text]:
    """What one repair for all, one for each group and multicalibration make of each group."""
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    grid.add_column("Group", overflow="fold")
    for arm in ARMS:
        grid.add_column(arm.capitalize(), justify="right")
    for row in repairs.rows[: MOST_SHOWN + 1]:
        cells = [
            Text(number(gap.value, signed=True))
            .append(f"\n{interval(gap, signed=True)}", style="dim")
            .append(f"\nlog loss {brief(loss)[0]}")
            for gap, loss in zip(row.gaps, row.losses, strict=True)
        ]
        name = Text(shortened(row.name or "all", most=NAME)).append(f"\n{count(row.count)}", style="dim")
        grid.add_row(name, *cells)
    title = f"Predicted minus actual rate and log loss by group; repairs: {repairs.method}, fitted on others"
    return [Text(title), grid, Text(said_of(repairs.rows), style="dim")]


def _below(pairs: Sequence[GroupPair]) -> list[Text]:
    """What the marks mean, and how many groups are left out."""
    said: list[str] = []
    if any(pair.real for pair in pairs[:MOST_SHOWN]):
        adjusted = f", corrected for {len(pairs)} groups (Holm)" if len(pairs) > 1 else ""
        said.append(f"*: above noise{adjusted}")
    if any(pair.before.vague and not pair.real for pair in pairs[:MOST_SHOWN]):
        said.append("?: too few samples to show an error of 5 points")
    if len(pairs) > MOST_SHOWN:
        said.append(f"{len(pairs) - MOST_SHOWN} more groups are in the report")
    return [Text(f"{'; '.join(said)}.", style="dim")] if said else []
