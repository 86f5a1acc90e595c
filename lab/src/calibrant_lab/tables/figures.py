"""From results to a figure: a quantity against a setting, each run and the mean over what is repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant_lab.figures.sweep import Curve, Point, sweep_figure
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.tables.build import build_table
from calibrant_lab.tables.frame import setting
from calibrant_lab.tables.layout import Layout, TableQuantity, varying

MOST_CURVES = 12


def draw(
    results: Sequence[RunResult], quantities: Sequence[TableQuantity], across: str, *, by: str | None = None
) -> Figure:
    """A panel for each quantity against a setting: of a table, each row as a curve.

    Args:
        results: Finished runs.
        quantities: What is drawn upwards.
        across: The setting, or as ``loss.gamma`` a setting of the loss; numbers or words.
        by: The setting that makes the curves; by default whatever else varies.

    Raises:
        InputError: If no run has the setting, or several runs would count as one.
    """
    xs = [position(each.settings, across) for each in results]
    there = [
        replace(each, settings={**each.settings, across: x})
        for each, x in zip(results, xs, strict=True)
        if x is not None
    ]
    if not there:
        known = dict.fromkeys(name for each in results for name in each.settings)
        raise InputError(f"--x: no run has a setting {across}{nearest(across, known)}")
    moving = {across, across.partition(".")[0] if across.startswith("loss.") else across}
    levels = [by] if by else [name for name in varying(there, "seed") if name not in moving]
    curves = {repr([each.settings.get(level) for level in levels]) for each in there}
    if len(curves) > MOST_CURVES:
        raise InputError(
            f"{len(curves)} curves are more than can be told apart; choose runs by --where, or name what "
            "makes the curves by --by."
        )
    layout = Layout(rows=tuple(levels), columns=(across,), cells=tuple(quantities))
    panels: dict[str, dict[str, list[Point]]] = {}
    for cell in build_table(layout, there).flat:
        name = ", ".join(str(cell.keys[level]) for level in levels)
        points = panels.setdefault(cell.quantity.head, {}).setdefault(name, [])
        if cell.mean:
            values, mean = tuple(cell.values.values()), cell.mean
            points.append(Point(x=cell.keys[across], values=values, mean=mean.value, half=mean.half_width))
    drawn = {
        title: [Curve(name=name, points=points) for name, points in curves.items()]
        for title, curves in panels.items()
    }
    return sweep_figure(drawn, across=across, by=", ".join(levels))


def position(settings: Mapping[str, Any], across: str) -> float | str | None:
    """Where a run stands: its setting, a number or a word."""
    value = setting(settings, across)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if value is None else str(value)
    return float(value)


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
    stage = stage or ("temperature" if source == "parameter" else "")
    content = {source: name, **({"stage": stage} if stage else {})}
    found = Layout.read({"rows": ["loss"], "cells": [content]}, source="--figure").cells[0]
    return replace(found, title=f"{found.title}, {stage}") if stage and source == "metric" else found
