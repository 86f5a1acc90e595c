"""From the results of a store to a tidy frame: a row for each run and each place where it counts."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from calibrant_lab.sweep.result import RunResult
from calibrant_lab.tables.layout import Layout, TableQuantity
from calibrant_lab.tables.names import accepts, settings_of, stage_of

Keys = Mapping[str, Any]
"""The value of each level: of a setting, or a paper's name."""


class Reading(NamedTuple):
    """A number of a run, unscaled, or why there is none; its stage, and the parameter in brackets."""

    value: float | None = None
    why: str = ""
    stage: str | None = None
    bracket: float | None = None


def tidy(layout: Layout, results: Iterable[RunResult], wanted: Iterable[Keys]) -> pd.DataFrame:
    """A row for each run and place: its ``keys``, and by them ``row`` and ``column``, None for no place.

    Points that a grid wants have the status ``wanted`` and no ``run``.
    """
    runs = [(each.settings, each.status, each) for each in results]
    rows = [
        (keys, status, run, settings.get(layout.repeat, run and run.run))
        for settings, status, run in [*runs, *((each, "wanted", None) for each in wanted)]
        for keys in places(layout, settings) or [None]
    ]
    found = pd.DataFrame(rows, columns=["keys", "status", "run", "repeat"], dtype=object)
    for side, levels in (("row", layout.rows), ("column", layout.columns)):
        found[side] = found["keys"].map(
            lambda keys, levels=levels: keys and repr([keys[each] for each in levels]), na_action="ignore"
        )
    return found


def places(layout: Layout, settings: Keys) -> list[Keys]:
    """Where a run counts; of a paper's names a run can have several, and another network has its own."""
    if layout.paper:
        return _papers_own(layout, layout.levels, settings)
    return [{level: settings.get(level) for level in layout.levels}]


def heads(layout: Layout, levels: Sequence[str], there: Iterable[Keys]) -> dict[str, Keys]:
    """The rows or columns of a table in their order, by what ``row`` and ``column`` of the frame are."""

    def order(keys: Keys) -> list[Any]:
        if not layout.paper:
            return [natural(value) for value in keys.values()]
        method = keys.get("method")
        return [str(keys["dataset"]), str(keys["model"]), [*layout.methods, method].index(method)]

    own = _papers_own(layout, levels) if layout.paper else []
    others = {
        repr(keys): keys for each in there if (keys := {level: each[level] for level in levels}) not in own
    }
    return {repr([*keys.values()]): keys for keys in [*own, *sorted(others.values(), key=order)]}


def _papers_own(layout: Layout, levels: Sequence[str], settings: Keys | None = None) -> list[Keys]:
    """Every combination of the paper's names; data sets come with their networks. Of them those of a run."""

    def named(level: str, name: str) -> bool:
        return settings is None or level == "calibrator" or accepts(level, name, settings)

    parts: dict[str, list[Keys]] = {}
    for level in levels:
        if level in {"dataset", "model"}:
            shown = [each for each in levels if each in {"dataset", "model"}]
            pairs: list[Keys] = [{"dataset": data, "model": model} for data, model in layout.networks]
            pairs = [pair for pair in pairs if all(named(each, pair[each]) for each in shown)]
            if settings and not pairs and {"dataset", "model"} <= {*layout.rows}:
                pairs = [{"dataset": settings.get("data.name"), "model": settings.get("model")}]
            parts["network"] = [{each: pair[each] for each in shown} for pair in pairs]
        else:
            parts[level] = [{level: name} for name in getattr(layout, f"{level}s") if named(level, name)]
    found = (
        {key: value for part in each for key, value in part.items()}
        for each in itertools.product(*parts.values())
    )
    return [{level: keys[level] for level in levels} for keys in found]


def natural(value: Any) -> list[tuple[int, float, str]]:
    """By which values are sorted: numbers by size, also those within words."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [(0, float(value), "")]
    parts = re.split(r"(\d+(?:\.\d+)?)", str(value))
    return [(1, float(part), "") if place % 2 else (2, 0.0, part) for place, part in enumerate(parts)]


def read(quantity: TableQuantity, result: RunResult, stages: Sequence[str] = ()) -> Reading:
    """The number of a quantity; ``stages`` take the place of the quantity's own where it has none."""
    name = quantity.name
    match quantity.source:
        case None:
            return Reading(why="only the paper has it")
        case "metric" | "parameter":
            return _of_stage(quantity, result, quantity.stage or tuple(stages))
        case "last":
            rows = result.rows
            found = _inside(rows[-1], name) if rows else None
        case "more":
            found = _inside(result.more, name)
        case "spent":
            found = getattr(result, f"{name}_seconds")
        case "setting":
            found = setting(result.settings, name)
    return _number(found, name)


def setting(settings: Keys, name: str) -> Any:
    """A setting, or as ``loss.gamma`` one of the loss's own; None if there is none."""
    head, _, inner = name.partition(".")
    if name in settings or head not in settings:
        return settings.get(name)
    return settings_of(str(settings[head]), "method" if head == "loss" else head).get(inner)


def _of_stage(quantity: TableQuantity, result: RunResult, wanted: Sequence[str]) -> Reading:
    stage = stage_of(result.metrics, wanted)
    if stage is None:
        return Reading(why=f"the run has no stage {wanted[-1] if wanted else ''}".rstrip())
    parameters = result.parameters.get(stage, {})
    held = result.metrics[stage] if quantity.source == "metric" else parameters
    if quantity.name not in held:
        return Reading(why=f"the run has no {quantity.name}", stage=stage)
    found = _number(held[quantity.name], quantity.name)
    why = found.why and result.undefined.get(stage, {}).get(quantity.name, found.why)
    bracket = _number(parameters.get(quantity.bracket), "").value if quantity.bracket else None
    return Reading(found.value, why, stage, bracket)


def _number(value: Any, name: str) -> Reading:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return Reading(float(value))
    return Reading(why=f"{name}: {'the run has none' if value is None else f'it is {value!r}, not a number'}")


def _inside(content: Keys, path: str) -> Any:
    """What lies at the end of names with points between them; a name may hold points itself."""
    if path in content:
        return content[path]
    head, dot, rest = path.partition(".")
    inner = content.get(head)
    return _inside(inner, rest) if dot and isinstance(inner, Mapping) else None
