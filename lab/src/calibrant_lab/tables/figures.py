"""From results to a figure: a quantity against a setting, each run and the mean over what is repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from calibrant._math.errors import InputError
from calibrant._math.means import mean_of
from calibrant._math.text_form import nearest
from calibrant_lab.figures.sweep import Curve, Point, sweep_figure
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.tables.cells import check_alone
from calibrant_lab.tables.headings import natural
from calibrant_lab.tables.layout import Layout, TableQuantity
from calibrant_lab.tables.names import call_setting
from calibrant_lab.tables.readings import read
from calibrant_lab.tables.without_layout import varying

MOST_CURVES = 12


def draw(
    results: Sequence[RunResult],
    quantities: Sequence[TableQuantity],
    across: str,
    *,
    by: str | None = None,
    repeat: str = "seed",
) -> Figure:
    """A panel for each quantity against a setting.

    Args:
        results: Finished runs.
        quantities: What is drawn upwards.
        across: The setting, or as ``loss.gamma`` a setting of the loss; numbers or words.
        by: The setting that makes the curves; by default whatever else varies.
        repeat: The setting over which means are taken.

    Raises:
        InputError: If no run has the setting, or several runs would count as one.
    """
    xs = {each.run: position(each.settings, across) for each in results}
    there = [each for each in results if xs[each.run] is not None]
    if not there:
        known = dict.fromkeys(name for each in results for name in each.settings)
        raise InputError(f"--x: no run has a setting {across}{nearest(across, known)}")
    levels = [by] if by else [name for name in varying(there, repeat) if not _moves(name, across)]
    curves: dict[str, dict[Any, list[RunResult]]] = {}
    for each in sorted(there, key=lambda one: _order(one, xs[one.run], levels)):
        name = ", ".join(str(each.settings.get(level)) for level in levels)
        curves.setdefault(name, {}).setdefault(xs[each.run], []).append(each)
    if len(curves) > MOST_CURVES:
        raise InputError(
            f"{len(curves)} curves are more than can be told apart; choose runs by --where, or name what "
            "makes the curves by --by."
        )
    layout = Layout(title="", rows=(across,), cells=tuple(quantities), repeat=repeat)
    for name, points in curves.items():
        for x, runs in points.items():
            check_alone(layout, runs, f"{name}, {across} = {x}".removeprefix(", "))
    panels = {
        " ".join(filter(None, [each.title, each.unit])): [
            Curve(name=name, points=_points(points, each)) for name, points in curves.items()
        ]
        for each in quantities
    }
    return sweep_figure(panels, across=across, by=", ".join(levels))


def position(settings: Mapping[str, Any], across: str) -> float | str | None:
    """Where a run stands: its setting, a number or a word."""
    if across in settings:
        value = settings[across]
    else:
        head, _, inner = across.partition(".")
        value = call_setting(str(settings.get(head, "")), inner) if head == "loss" else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if value is None else str(value)
    return float(value)


def _order(result: RunResult, x: float | str | None, levels: Sequence[str]) -> list[Any]:
    """By curve, then by position, numbers by size."""
    return [natural(each) for each in (*(result.settings.get(level) for level in levels), x)]


def _moves(name: str, across: str) -> bool:
    """Whether a setting is what the figure runs along."""
    return name == across or (name == "loss" and across.startswith("loss."))


def _points(points: Mapping[Any, Sequence[RunResult]], quantity: TableQuantity) -> list[Point]:
    found: list[Point] = []
    for x, runs in points.items():
        readings = [read(quantity, each).value for each in runs]
        values = [quantity.scale * value for value in readings if value is not None]
        if values:
            found.append(
                Point(x=x, values=tuple(values), mean=mean_of(values).value, half=mean_of(values).half_width)
            )
    return found


def quantity_of(text: str) -> TableQuantity:
    """A quantity as the command line names it: ``ece``, ``nll@temperature``, ``parameter:temperature``.

    Raises:
        InputError: If there is no such source.

    Example:
        >>> quantity_of("ece@temperature").title, quantity_of("parameter:temperature").source
        ('ECE, temperature', 'parameter')
    """
    head, colon, rest = text.partition(":")
    source, name = (head, rest) if colon else ("metric", text)
    name, _, stage = name.partition("@")
    if source == "parameter" and not stage:
        stage = "temperature"
    content = {source: name, **({"stage": stage} if stage else {})}
    found = Layout.read({"rows": ["loss"], "cells": [content]}, source="--figure").cells[0]
    return replace(found, title=f"{found.title}, {stage}") if stage and source == "metric" else found
