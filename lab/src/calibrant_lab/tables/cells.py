"""A cell of a table: the runs that stand in it, their mean, and the number that a paper prints there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.means import Mean, mean_of, standard_errors
from calibrant_lab.sweep.published import Fact, facts, paper_named
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.tables.comparisons import Comparison
from calibrant_lab.tables.headings import Heading
from calibrant_lab.tables.layout import Layout, TableQuantity
from calibrant_lab.tables.names import meant_by_lost, stand_ins
from calibrant_lab.tables.readings import read

_COSMETIC = ("hardware", "record")
"""Sections of settings that do not decide a run's numbers."""


@dataclass(frozen=True, kw_only=True)
class Printed:
    """A paper's number, and ours less theirs.

    Attributes:
        fact: The number as it is printed.
        value: The number.
        interval: Half the width of its 95 % interval, where the paper gives a standard deviation.
        difference: Ours less theirs.
    """

    fact: Fact
    value: float | None
    interval: float | None
    difference: float | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What stands in a place of a table; numbers are scaled as they are shown.

    Attributes:
        row: The head of its row.
        column: The head of its column.
        quantity: What it shows.
        mean: Over what the runs repeat; None where no run has a value.
        values: By what the runs repeat.
        stages: The stages that the values are of.
        bracket: Mean of the parameter in brackets.
        runs: How many runs stand here, by status.
        wanted: How many the grid has here; None where it is not known.
        undefined: How many finished runs have no value, by reason.
        printed: The paper's number.
        stand_ins: Data sets and networks used in place of the paper's own.
        best: Whether it is the best of those it is compared with, beyond noise.
        against: How it differs from the arm that all are compared with.
    """

    row: Heading
    column: Heading
    quantity: TableQuantity
    mean: Mean | None
    values: Mapping[Any, float]
    stages: tuple[str, ...] = ()
    bracket: float | None = None
    runs: Mapping[str, int] = field(default_factory=dict[str, int])
    wanted: int | None = None
    undefined: Mapping[str, int] = field(default_factory=dict[str, int])
    printed: Printed | None = None
    stand_ins: tuple[str, ...] = ()
    best: bool = False
    against: Comparison | None = None

    @property
    def keys(self) -> dict[str, Any]:
        """What row and column stand for."""
        return {**self.row.keys, **self.column.keys}

    def named(self, levels: Sequence[str]) -> str:
        """What it stands for at some levels."""
        chosen = [label for each in (self.row, self.column) for label in each.words(levels)]
        return ", ".join(chosen)


def make_cell(
    layout: Layout,
    row: Heading,
    column: Heading,
    results: Sequence[RunResult],
    wanted: int | None,
    *,
    published: bool,
) -> Cell:
    """The cell of the runs that stand in it."""
    quantity = row.quantity or column.quantity
    if quantity is None:
        raise InputError("a cell must show a quantity.")
    finished = [each for each in results if each.status == "finished"]
    keys = {**row.keys, **column.keys}
    stages = [keys["calibrator"]] if "calibrator" in keys else []
    found = {_repeat(layout, each): read(quantity, each, stages) for each in finished}
    values = {
        key: quantity.scale * reading.value for key, reading in found.items() if reading.value is not None
    }
    brackets = [each.bracket for each in found.values() if each.bracket is not None]
    return Cell(
        row=row,
        column=column,
        quantity=quantity,
        mean=mean_of(list(values.values())) if values else None,
        values=values,
        stages=tuple(dict.fromkeys(each.stage for each in found.values() if each.stage)),
        bracket=mean_of(brackets).value if brackets else None,
        runs=Counter(each.status for each in results),
        wanted=wanted,
        undefined=Counter(each.why for each in found.values() if each.value is None),
        printed=_printed(layout, keys, quantity, values) if published else None,
        stand_ins=tuple(
            dict.fromkeys(other for each in finished for other in stand_ins(keys, each.settings))
        ),
    )


def check_alone(layout: Layout, results: Sequence[RunResult], where: str) -> None:
    """Refuse to take two runs that differ in more than what is repeated for one.

    Raises:
        InputError: Naming what they differ in.
    """
    seen: dict[Any, RunResult] = {}
    for each in results:
        other = seen.setdefault(_repeat(layout, each), each)
        if other is each:
            continue
        names = dict.fromkeys([*each.settings, *other.settings])
        differing = [name for name in names if each.settings.get(name) != other.settings.get(name)]
        deciding = [name for name in differing if name.partition(".")[0] not in _COSMETIC] or differing
        what = ", ".join(deciding) or "their data or the version of their numbers"
        raise InputError(
            f"{where}: several runs have {layout.repeat} = {each.settings.get(layout.repeat)}; they differ "
            f"in {what}. Name it in `rows` or `columns` of a layout, or choose by --where."
        )


def strays(layout: Layout, results: Sequence[RunResult]) -> list[str]:
    """Settings that vary over a cell's runs besides what is repeated, and not only along with it."""
    if len(results) < 2:
        return []
    names = dict.fromkeys(name for each in results for name in each.settings)
    varied = [name for name in names if len({repr(each.settings.get(name)) for each in results}) > 1]
    return [
        name
        for name in varied
        if name != layout.repeat
        and name.partition(".")[0] not in _COSMETIC
        and not name.rpartition(".")[2].endswith("seed")
    ]


def _repeat(layout: Layout, result: RunResult) -> Any:
    return result.settings.get(layout.repeat, result.run)


def _printed(
    layout: Layout, keys: Mapping[str, Any], quantity: TableQuantity, values: Mapping[Any, float]
) -> Printed | None:
    if layout.paper is None or quantity.published is None:
        return None
    among = _facts(layout.paper, layout.table, *quantity.published)
    fact = next((each for each in among if _is_fact(layout, each, keys)), None)
    if fact is None:
        return None
    if not fact.value:
        return Printed(fact=fact, value=None, interval=None)
    printed = Printed(fact=fact, value=float(fact.value), interval=_interval(layout, fact))
    if not values:
        return printed
    return replace(printed, difference=mean_of(list(values.values())).value - float(fact.value))


@cache
def _facts(paper: str, table: str, metric: str, stage: str) -> tuple[Fact, ...]:
    asked = table, metric, stage
    return tuple(each for each in facts(paper) if (each.table, each.metric, each.stage) == asked)


def _is_fact(layout: Layout, fact: Fact, keys: Mapping[str, Any]) -> bool:
    method = meant_by_lost(layout.paper or "", fact.dataset, fact.method)
    return (
        fact.dataset == keys.get("dataset", fact.dataset)
        and fact.model in {keys.get("model", fact.model), ""}
        and method == keys.get("method", method)
        and fact.calibrator.partition("(")[0] == keys.get("calibrator", fact.calibrator)
    )


def _interval(layout: Layout, fact: Fact) -> float | None:
    runs = paper_named(layout.paper or "").runs
    if not fact.sd or runs is None:
        return None
    return standard_errors(runs) * float(fact.sd) / runs**0.5
