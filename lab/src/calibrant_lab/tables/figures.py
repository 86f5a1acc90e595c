"""Draw a quantity against a setting: each run, and the mean over repeats."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest, parse_call
from calibrant.reports.figures import drawing
from calibrant_lab.sweep.published import facts, paper_named
from calibrant_lab.sweep.tasks.task import RunResult
from calibrant_lab.tables.build import Cell, build_table, setting
from calibrant_lab.tables.layout import Layout, TableQuantity, layout_named, layouts, varying
from calibrant_lab.tables.names import accepts, roster

MOST_CURVES = 12
FEWEST = 3  # runs whose mean has an interval that is drawn
_SPAN = 20.0  # ratio of the largest to the smallest position from which the scale is logarithmic
_MOST_TICKS = 8
_WIDEST = 34  # characters of a line beside an axis
_MEANS = "means"
_LONG = 9  # characters of words below the axis from which they are turned

Curves = Mapping[str, Sequence[tuple[float | str, Cell]]]
"""Positions with what was found there, by the name of the curve, which is empty if there is only one."""
Points = Sequence[tuple[float, float]]


def draw(
    results: Sequence[RunResult],
    quantities: Sequence[TableQuantity],
    across: str,
    *,
    by: str | None = None,
    like: Sequence[str] = (),
) -> Figure:
    """Draw a panel per quantity against a setting; table rows become curves.

    Small marks are runs, large ones means, bars 95% intervals of means of at least three runs. ``across`` can
    be a setting of the loss, such as ``loss.gamma``; without ``by``, all other variation gives curves. Grey
    stars are the papers' numbers for the datasets and networks of the runs, or for those of ``like``.
    """
    there = [
        replace(each, settings={**each.settings, across: x})
        for each in results
        if (x := position(each.settings, across)) is not None
    ]
    if not there:
        known = dict.fromkeys(name for each in results for name in each.settings)
        raise InputError(f"--x: no run has a setting {across}{nearest(across, known)}")
    moving = {across, across.partition(".")[0] if across.startswith("loss.") else across}
    levels = [by] if by else [name for name in varying(there, "seed") if name not in moving]
    curves = {repr([each.settings.get(level) for level in levels]) for each in there}
    check_few(len(curves))
    layout = Layout(rows=tuple(levels), columns=(across,), cells=tuple(quantities))
    panels: dict[str, dict[str, list[tuple[Any, Cell]]]] = {}
    for cell in build_table(layout, there).flat:
        name = ", ".join(str(cell.keys[level]) for level in levels)
        points = panels.setdefault(cell.quantity.head, {}).setdefault(name, [])
        points += [(cell.keys[across], cell)] if cell.mean else []
    printed = {each.head: published(there, each, across, like) for each in quantities}
    if like and not any(printed.values()):
        raise InputError(f"--published: no paper has these numbers of {', '.join(like)} by {across}.")
    return _figure(panels, printed, across=across, by=", ".join(levels))


def check_few(curves: int) -> None:
    if curves > MOST_CURVES:
        raise InputError(
            f"{curves} curves are more than can be told apart; choose runs by --where, or name what makes "
            "the curves by --by."
        )


def _figure(
    panels: Mapping[str, Curves], printed: Mapping[str, Mapping[str, Points]], *, across: str, by: str
) -> Figure:
    theirs = dict.fromkeys(name for each in printed.values() for name in each)
    names = [*next(iter(panels.values())), *theirs]
    beside = any(names) and len(names) > 1
    names = [name or "these runs" for name in names]
    legend_width = 0.4 + 0.075 * max(map(len, [by, *names])) if beside else 0
    with drawing.drawing_style():
        figure = Figure(figsize=(3.9 * len(panels) + legend_width, 3.3), layout="constrained")
        for place, (title, curves) in enumerate(panels.items(), 1):
            ax = figure.add_subplot(1, len(panels), place)
            _panel(ax, curves, {name: printed[title].get(name, []) for name in theirs})
            ax.set(xlabel=across, ylabel="\n".join(textwrap.wrap(title, _WIDEST)))
            drawing.open_frame(ax)
        if beside:
            handles = [line for line in figure.axes[0].get_lines() if line.get_gid() == _MEANS]
            entries = [*zip(names, handles, strict=True)]
            drawing.named_legend(figure, entries, loc="outside right center", title=by or None)
    return figure


def _panel(ax: Axes, curves: Curves, theirs: Mapping[str, Points]) -> None:
    xs = list(dict.fromkeys(x for points in (*curves.values(), *theirs.values()) for x, _ in points))
    words = any(isinstance(x, str) for x in xs)
    places = _words_below(ax, [str(x) for x in xs]) if words else {str(x): float(x) for x in xs}
    if not words:
        _numbers_below(ax, sorted(places.values()))
    logarithmic = ax.get_xscale() == "log"
    steps = [b / a if logarithmic else b - a for a, b in pairwise(sorted(places.values()))]
    step = min(steps, default=1.0)
    for number, found in enumerate(curves.values()):
        colour, shape, dashes = drawing.series(number)
        points = sorted(((places[str(x)], cell) for x, cell in found), key=lambda point: point[0])
        shift = (number - (len(curves) - 1) / 2) * min(0.12, 0.5 / len(curves))
        at = [x * step**shift if logarithmic else x + step * shift for x, _ in points]
        for x, (_, cell) in zip(at, points, strict=True):
            values = [*cell.values.values()]
            ax.plot([x] * len(values), values, shape, color=colour, markersize=2.5, alpha=0.45)
        averages = [(cell.mean, len(cell.values)) for _, cell in points if cell.mean]
        means = [mean.value for mean, _ in averages]
        # The interval of two runs is so wide that the runs could not be told apart beside it.
        halves = drawing.floats(mean.half_width if runs >= FEWEST else None for mean, runs in averages)
        ax.errorbar(at, means, yerr=halves, fmt="none", ecolor=colour, elinewidth=1, capsize=2)
        (line,) = ax.plot(at, means, color=colour, marker=shape, markersize=5.5, linewidth=1.2)
        line.set(markerfacecolor="none", linestyle="none" if words else dashes, gid=_MEANS)
    for number, points in enumerate(theirs.values()):
        style: dict[str, Any] = {"color": drawing.GREY, "linestyle": drawing.DASHES[number % 3]}
        ax.plot([x for x, _ in points], [y for _, y in points], marker="*", gid=_MEANS, linewidth=1, **style)
    ax.grid(axis="y", alpha=0.3)


def _words_below(ax: Axes, words: Sequence[str]) -> dict[str, float]:
    ax.set_xticks(range(len(words)), words)
    if max(map(len, words)) > _LONG:
        ax.tick_params(axis="x", rotation=30)
        for label in ax.get_xticklabels():
            label.set_horizontalalignment("right")
    return {word: float(place) for place, word in enumerate(words)}


def _numbers_below(ax: Axes, numbers: Sequence[float]) -> None:
    if numbers[0] > 0 and numbers[-1] / numbers[0] >= _SPAN:
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_minor_formatter(NullFormatter())
    if len(numbers) <= _MOST_TICKS:
        ax.set_xticks(numbers, [f"{x:g}" for x in numbers])


def published(
    results: Sequence[RunResult], quantity: TableQuantity, across: str, like: Sequence[str] = ()
) -> dict[str, Points]:
    """Return a quantity in the papers' tables by a setting of the loss, for each paper and network.

    Losses, datasets and networks are those of the runs; ``like`` names another dataset and network.
    """
    name = across.removeprefix("loss.")
    losses = {str(each.settings.get("loss")).partition("(")[0] for each in results} | {"cross-entropy"}
    stage = (quantity.stage or ("uncalibrated",))[-1].partition("(")[0]
    stages = {"uncalibrated": {"pre", "na"}, "temperature": {"post", "na"}}.get(stage, set())
    found: dict[str, dict[float, float]] = {}
    for layout, cell in ((each, cell) for each in map(layout_named, layouts()) for cell in each.cells):
        wanted = (layout.table, *(cell.published or ("", "")))
        if (cell.source, cell.name) != (quantity.source, quantity.name) or wanted[2] not in stages:
            continue
        paper, symbol = str(layout.paper), {"calibration_weight": "lambda"}.get(name, name)
        tuned = {each[1:4]: each.value for each in facts(paper) if each.metric == symbol}
        for fact in facts(paper):
            place = (fact.dataset, fact.model)
            ours = [all(map(accepts, ("dataset", "model"), place, [each.settings] * 2)) for each in results]
            loss = next(iter(roster()["methods"].get(fact.method, ["unknown"])))
            same = (fact.table, fact.metric, fact.stage) == wanted and fact.calibrator in {"", "temperature"}
            known = loss.partition("(")[0] in losses and (place == tuple(like) if like else any(ours))
            plain = 0.0 if (loss, name) == ("cross-entropy", "gamma") else None
            x = tuned.get(fact[1:4], parse_call(loss)[1].get(name, plain))
            if same and known and fact.value and isinstance(x, int | float | str):
                title = ", ".join((paper_named(paper).title, *place))
                found.setdefault(title, {})[float(x)] = float(fact.value) / cell.scale * quantity.scale
    return {title: sorted(points.items()) for title, points in found.items() if any(points)}


def position(settings: Mapping[str, Any], across: str) -> float | str | None:
    """Return a run's x position, a number or a word; cross-entropy is focal loss with gamma 0."""
    value = setting(settings, across)
    if across == "loss.gamma" and settings.get("loss") == "cross-entropy":
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if value is None else str(value)
    return float(value)


def quantity_of(text: str) -> TableQuantity:
    """Parse a quantity of the command line: ``ece``, ``nll@temperature``, ``parameter:temperature``.

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
