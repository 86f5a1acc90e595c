"""What a quantity is in a run's result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.text_form import parse_call
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.tables.layout import TableQuantity
from calibrant_lab.tables.names import call_setting, same

_SPENT = {"wall": "wall_seconds", "cpu": "cpu_seconds"}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A number of a run, unscaled.

    Attributes:
        value: None where there is none.
        why: Why there is none.
        stage: The stage it is of, where it is of one.
        bracket: The parameter that goes with it.
    """

    value: float | None
    why: str = ""
    stage: str | None = None
    bracket: float | None = None


def read(quantity: TableQuantity, result: RunResult, stages: Sequence[str] = ()) -> Reading:
    """The number of a quantity; ``stages`` take the place of the quantity's own where it has none."""
    if quantity.source is None:
        return Reading(value=None, why="only the paper has it")
    if quantity.source in {"metric", "parameter"}:
        return _of_stage(quantity, result, quantity.stage or tuple(stages))
    if quantity.source == "last":
        rows = result.rows
        return _checked(_inside(rows[-1] if rows else {}, quantity.name), quantity)
    if quantity.source == "more":
        return _checked(_inside(result.more, quantity.name), quantity)
    if quantity.source == "spent":
        if quantity.name not in _SPENT:
            raise InputError(f"`spent` must be wall or cpu; got {quantity.name!r}.")
        return _checked(getattr(result, _SPENT[quantity.name]), quantity)
    return _checked(_setting(result.settings, quantity.name), quantity)


def stage_of(known: Iterable[str], wanted: Sequence[str]) -> str | None:
    """The stage that is meant: the first wanted that is known, or else one of the last one's name.

    Example:
        >>> known = ["uncalibrated", 'temperature(search="grid", objective="ece")']
        >>> stage_of(known, ['temperature(objective="ece", search="grid")', "temperature"]) == known[1]
        True
        >>> stage_of(known, ["focal-temperature"]) is None
        True
    """
    names = list(known)
    if not wanted:
        return names[0] if names else None
    for each in wanted:
        for name in names:
            if name == each or same_call(name, each):
                return name
    return next((name for name in names if _name(name) == _name(wanted[-1])), None)


def same_call(one: str, other: str) -> bool:
    """Whether two calls have the same name and settings, in whatever order."""
    try:
        (name, settings), (asked, those) = parse_call(one), parse_call(other)
    except InputError:
        return False
    return (
        name == asked and settings.keys() == those.keys() and all(same(settings[k], those[k]) for k in those)
    )


def _name(call: str) -> str:
    return call.partition("(")[0].strip()


def _of_stage(quantity: TableQuantity, result: RunResult, wanted: Sequence[str]) -> Reading:
    stage = stage_of(result.metrics, wanted)
    if stage is None:
        return Reading(value=None, why=f"the run has no stage {wanted[-1] if wanted else ''}".rstrip())
    parameters = result.parameters.get(stage, {})
    held = result.metrics[stage] if quantity.source == "metric" else parameters
    if quantity.name not in held:
        return Reading(value=None, why=f"the run has no {quantity.name}", stage=stage)
    found = _checked(held[quantity.name], quantity)
    why = found.why
    if found.value is None:
        why = result.undefined.get(stage, {}).get(quantity.name, why)
    bracket = _number(parameters.get(quantity.bracket)) if quantity.bracket else None
    return Reading(value=found.value, why=why, stage=stage, bracket=bracket)


def _checked(value: Any, quantity: TableQuantity) -> Reading:
    number = _number(value)
    if number is not None:
        return Reading(value=number)
    why = "the run has none" if value is None else f"it is {value!r}, not a number"
    return Reading(value=None, why=f"{quantity.name}: {why}")


def _number(value: Any) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if plain else None


def _inside(content: Mapping[str, Any], path: str) -> Any:
    """What lies at the end of names with points between them; a name may hold points itself."""
    if path in content:
        return content[path]
    head, dot, rest = path.partition(".")
    inner = content.get(head)
    return _inside(inner, rest) if dot and isinstance(inner, Mapping) else None


def _setting(settings: Mapping[str, Any], name: str) -> Any:
    """A setting, or as ``loss.gamma`` one of the loss's own."""
    if name in settings:
        return settings[name]
    head, _, inner = name.partition(".")
    return (
        call_setting(str(settings[head]), inner, {"loss": "method"}.get(head, head))
        if head in settings
        else None
    )
