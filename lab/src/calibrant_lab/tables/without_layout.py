"""The table of a store of which nobody said what it should show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant._math.errors import InputError
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.tables.layout import Layout
from calibrant_lab.tables.readings import stage_of

_COSMETIC = ("hardware", "record", "evaluation")
_MOST = 8
"""Quantities of a task without stages that are shown."""


TITLES = {"nll": "Log loss", "ece": "ECE"}


def usual_layout(results: Sequence[RunResult], *, repeat: str = "seed") -> Layout:
    """What varies makes the rows; error, NLL, ECE before and after the first calibrator, and its temperature.

    Raises:
        InputError: If there are no results.
    """
    if not results:
        raise InputError("there is no run to make a table of.")
    rows = varying(results, repeat) or [
        "loss" if "loss" in results[0].settings else next(iter(results[0].settings))
    ]
    return Layout.read({"rows": rows, "repeat": repeat, "compare": _arms(rows), "cells": _cells(results)})


def varying(results: Sequence[RunResult], repeat: str) -> list[str]:
    """Settings that tell the runs apart: the axes of their grids, then what else varies on its own."""
    settings = [each.settings for each in results]
    axes = dict.fromkeys(name for each in results for name in each.axes)
    names = dict.fromkeys([*axes, *(name for each in settings for name in each)])
    kept: list[str] = []
    for name in names:
        if name == repeat or _kinds(settings, [name]) == 1 or name.partition(".")[0] in _COSMETIC:
            continue
        own_seed = name.rpartition(".")[2].endswith("seed")
        if own_seed and _kinds(settings, [repeat, name]) == _kinds(settings, [repeat]):
            continue
        if name in axes or _kinds(settings, [*kept, name]) > _kinds(settings, kept):
            kept.append(name)
    return kept


def _kinds(settings: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int:
    """How many different values a combination of settings has."""
    return len({repr([each.get(name) for name in names]) for each in settings})


def _arms(rows: Sequence[str]) -> list[str]:
    return ["loss"] if "loss" in rows else list(rows)


def _cells(results: Sequence[RunResult]) -> list[dict[str, Any]]:
    stages = list(dict.fromkeys(stage for each in results for stage in each.metrics))
    known = dict.fromkeys(name for each in results for stage in each.metrics.values() for name in stage)
    if not stages:
        raise InputError("no run has a number to show; `calibrant runs` says what became of them.")
    after = stage_of(stages[1:], ["temperature"]) or (stages[1] if len(stages) > 1 else None)
    if "ece" not in known or after is None:
        return [{"metric": name} for name in list(known)[:_MOST]]
    before = stages[0]
    first = [name for name in ("error", "nll", "ece") if name in known]
    cells: list[dict[str, Any]] = [{"metric": name, "stage": before} for name in first]
    for name in first:
        if name != "error":
            title = f"{TITLES[name]} after {_short(after)}"
            cells.append({"metric": name, "stage": after, "title": title})
    if any("temperature" in each.parameters.get(after, {}) for each in results):
        cells.append({"parameter": "temperature", "stage": after})
    return cells


def _short(stage: str) -> str:
    name = stage.partition("(")[0]
    return "T" if name == "temperature" else name
