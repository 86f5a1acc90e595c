"""The heads of a table's rows and columns, and which results stand below and beside them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant_lab.tables import names
from calibrant_lab.tables.layout import Layout, TableQuantity


@dataclass(frozen=True, kw_only=True)
class Heading:
    """The head of a row or column.

    Attributes:
        keys: What it stands for, by level: the value of a setting, or a paper's name.
        exact: The settings that a run must have, where what it stands for is not a name of a paper.
        quantity: What stands in its cells, where the other side does not say.
    """

    keys: Mapping[str, Any] = field(default_factory=dict[str, Any])
    exact: Mapping[str, Any] = field(default_factory=dict[str, Any])
    quantity: TableQuantity | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The words of each level."""
        return tuple(self.words(tuple(self.keys)))

    def words(self, levels: Sequence[str]) -> list[str]:
        """The words of some levels."""
        return [
            names.title(str(value)) if level in names.LEVELS else _shown(value)
            for level, value in self.keys.items()
            if level in levels
        ]

    def accepts(self, settings: Mapping[str, Any]) -> bool:
        """Whether a run stands here."""
        if self.exact:
            return all(settings.get(name) == value for name, value in self.exact.items())
        return all(names.accepts(level, value, settings) for level, value in self.keys.items())


def headings(
    layout: Layout, settings: Sequence[Mapping[str, Any]]
) -> tuple[tuple[Heading, ...], tuple[Heading, ...]]:
    """Rows and columns of a table, the quantities among them.

    Args:
        layout: What is asked for.
        settings: Those of every run.
    """
    if layout.paper:
        rows, columns = (_of_paper(layout, levels) for levels in (layout.rows, layout.columns))
        rows = (*rows, *_beyond_paper(layout, rows, settings))
    else:
        rows, columns = (_of_settings(levels, settings) for levels in (layout.rows, layout.columns))
    if layout.quantities == "rows":
        return _with_quantities(rows, layout.cells), columns
    return rows, _with_quantities(columns, layout.cells)


def check_levels(layout: Layout, settings: Sequence[Mapping[str, Any]]) -> None:
    """Refuse settings that no run has.

    Raises:
        InputError: Naming the nearest.
    """
    known = dict.fromkeys(name for each in settings for name in each)
    for level in (*layout.levels, layout.repeat) if settings and not layout.paper else ():
        if level not in known and level != "seed":
            raise InputError(f"the runs have no setting {level}{nearest(level, known)}")


def _of_settings(levels: Sequence[str], settings: Iterable[Mapping[str, Any]]) -> tuple[Heading, ...]:
    """Every combination that there is, in a natural order."""
    found: dict[str, dict[str, Any]] = {}
    for each in settings:
        keys = {level: each.get(level) for level in levels}
        found.setdefault(repr(tuple(keys.values())), keys)
    ordered = sorted(found.values(), key=lambda keys: [natural(value) for value in keys.values()])
    return tuple(Heading(keys=keys, exact=keys) for keys in ordered)  # `model` is a paper's name too


def _of_paper(layout: Layout, levels: Sequence[str]) -> tuple[Heading, ...]:
    """Every combination of the paper's names; data sets come with their networks."""
    parts: list[list[dict[str, Any]]] = []
    for level in levels:
        if level == "dataset":
            shown = ("dataset", "model") if "model" in levels else ("dataset",)
            pairs = [dict(zip(("dataset", "model"), pair, strict=True)) for pair in layout.networks]
            parts.append([{name: pair[name] for name in shown} for pair in pairs])
        elif level != "model":
            parts.append([{level: name} for name in getattr(layout, f"{level}s")])
    if not parts:
        return (Heading(),)
    chosen = itertools.product(*parts)
    return tuple(Heading(keys={k: v for part in parts_ for k, v in part.items()}) for parts_ in chosen)


def _beyond_paper(
    layout: Layout, rows: Sequence[Heading], settings: Sequence[Mapping[str, Any]]
) -> list[Heading]:
    """Rows for data sets and networks that the paper has not."""
    if not {"dataset", "model"} <= set(layout.rows):
        return []
    found: dict[tuple[Any, ...], Heading] = {}
    for each in settings:
        if any(_same_network(row, each) for row in rows):
            continue
        pair = each.get("data.name"), each.get("model")
        others = [
            {"method": method, "calibrator": calibrator}
            for method in (layout.methods if "method" in layout.rows else [None])
            for calibrator in (layout.calibrators if "calibrator" in layout.rows else [None])
        ]
        for other in others:
            rest = {name: value for name, value in other.items() if value is not None}
            if "method" in rest and not names.accepts("method", rest["method"], each):
                continue
            found[(*pair, *rest.values())] = Heading(
                keys={"dataset": pair[0], "model": pair[1], **rest},
                exact={
                    "data.name": pair[0],
                    "model": pair[1],
                    **({"loss": each["loss"]} if "method" in rest else {}),
                },
            )
    return sorted(found.values(), key=lambda row: _in_order(layout, row))


def _in_order(layout: Layout, row: Heading) -> tuple[str, str, int]:
    """By data and network, then as the paper orders its methods."""
    methods = [*layout.methods, row.keys.get("method")]
    return str(row.keys["dataset"]), str(row.keys["model"]), methods.index(row.keys.get("method"))


def _same_network(row: Heading, settings: Mapping[str, Any]) -> bool:
    return all(
        names.accepts(level, row.keys[level], settings) for level in ("dataset", "model") if level in row.keys
    )


def _with_quantities(given: Sequence[Heading], quantities: Sequence[TableQuantity]) -> tuple[Heading, ...]:
    return tuple(replace(heading, quantity=quantity) for heading in given for quantity in quantities)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def natural(value: Any) -> list[tuple[int, float, str]]:
    """Numbers by size, also those within words."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [(0, float(value), "")]
    parts = re.split(r"(\d+(?:\.\d+)?)", str(value))
    return [(1, float(part), "") if place % 2 else (2, 0.0, part) for place, part in enumerate(parts)]
