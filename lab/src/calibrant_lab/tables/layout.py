"""Rows, columns and cells of a table, read from TOML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from calibrant._math.errors import InputError
from calibrant._math.text_form import named, nearest
from calibrant_lab.sweep.published import paper_named
from calibrant_lab.sweep.tasks.task import RunResult
from calibrant_lab.tables.names import LEVELS, roster, stage_of
from calibrant_lab.training.recipe_files import flat, read_toml

FoundIn: TypeAlias = Literal["metric", "parameter", "last", "setting", "more", "spent"]
SOURCES: tuple[FoundIn, ...] = get_args(FoundIn)
FOLDER = Path(__file__).with_name("layouts")
_PERCENT = {"scale": 100.0, "unit": "%", "digits": 2}
_PLAIN = {"scale": 1.0, "unit": "", "digits": 3}
_USUAL: Mapping[tuple[str | None, str], dict[str, Any]] = {
    ("metric", "error"): {"title": "Error", "better": "lower", **_PERCENT},
    ("parameter", "temperature"): {"title": "T", "digits": 2},
    ("spent", "wall"): {"unit": "s", "digits": 1},
    ("spent", "cpu"): {"unit": "s", "digits": 1},
}
_ASIDE = ("hardware", "record", "evaluation")  # sections of settings that make no rows of their own
_AFTER = {"nll": "Log loss", "ece": "ECE"}
_MOST = 8  # quantities of a task without stages that are shown


@dataclass(frozen=True, kw_only=True)
class TableQuantity:
    """Content of a cell."""

    title: str  # its head
    source: FoundIn | None
    """Source in a run's result: a ``metric``, a fitted ``parameter``, the ``last`` epoch's record, a
    ``setting``, something in ``more``, or the time ``spent``. None for a paper's own quantities."""
    name: str  # its name there
    stage: tuple[str, ...] = ()  # of these stages the first that a run has counts; empty: the run's first one
    scale: float = 1.0  # factor
    unit: str = ""  # its unit then
    digits: int = 3  # digits after the point
    better: Literal["lower", "higher"] | None = None  # None where neither end is better, so that none is best
    bracket: str | None = None  # a parameter of the same stage to be shown in brackets
    published: tuple[str, str] | None = None  # metric and stage by which the paper's number is found

    @property
    def head(self) -> str:
        return f"{self.title} {self.unit}".strip()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Rows, columns and cells of a table."""

    title: str = ""  # title of the table
    rows: tuple[str, ...]
    """Settings whose values make the rows; of a paper's table its own names for them: ``dataset``, ``model``,
    ``method``, ``calibrator``."""
    columns: tuple[str, ...] = ()  # settings whose values make the columns; may be empty
    cells: tuple[TableQuantity, ...]  # what stands in the cells
    quantities: Literal["columns", "rows"] = "columns"  # whether these are columns or rows, below the others
    compare: tuple[str, ...] = ()  # the rows and columns whose values are compared with one another
    repeat: str = "seed"  # the setting over which means are taken, and by which differences are paired
    where: Mapping[str, Any] = field(default_factory=dict[str, Any])  # settings that a run must have to count
    paper: str | None = None  # the paper whose numbers stand beside ours
    table: str = ""  # its table
    networks: tuple[tuple[str, str], ...] = ()  # its data sets, each with a network
    methods: tuple[str, ...] = ()  # its methods
    calibrators: tuple[str, ...] = ()  # its calibrators
    notes: tuple[str, ...] = ()  # sentences to stand below the table
    said: tuple[str, ...] = ()  # what of the remarks of the published file these sentences say already

    @property
    def levels(self) -> tuple[str, ...]:
        return (*self.rows, *self.columns)

    @property
    def compared(self) -> tuple[str, ...]:
        """Levels whose values are compared; by default losses, or else the rows."""
        usual = tuple(level for level in self.levels if level in {"loss", "method"})
        return self.compare or usual or self.rows

    @classmethod
    def read(cls, content: Mapping[str, Any], *, source: str = "layout") -> Layout:
        """Validate ``content``; ``source`` is named in messages.

        Raises:
            InputError: If an entry is unknown, missing or of another form.

        Example:
            >>> Layout.read({"rows": ["loss"], "cells": [{"metric": "ece"}]}).cells[0].unit
            '%'
            >>> Layout.read({"rows": ["loss"], "cell": []})
            Traceback (most recent call last):
            calibrant._math.errors.InputError: layout: there is no entry 'cell'; did you mean 'cells'?
        """
        _check_known(content, [each.name for each in fields(cls)], f"{source}: there is no entry")
        if not isinstance(content.get("cells"), list) or not content["cells"]:
            raise InputError(f'{source}: write [[cells]] and below it what they show, as metric = "ece".')
        names = ("rows", "columns", "compare", "methods", "calibrators", "notes", "said")
        lists: dict[str, Any] = {name: content.get(name, ()) for name in names}
        for name, found in lists.items():
            if isinstance(found, str) or not all(isinstance(each, str) for each in found):
                raise InputError(f"{source}: `{name}` must be a list of texts; got {found!r}.")
            lists[name] = tuple(found)
        levels = (*lists["rows"], *lists["columns"])
        if not lists["rows"]:
            raise InputError(f'{source}: `rows` must name settings, as in rows = ["loss"]; got none.')
        if "paper" in content:
            paper_named(content["paper"])
            _check_all(levels, LEVELS, f"{source}: with `paper`, rows and columns are {', '.join(LEVELS)}")
        quantities = content.get("quantities", "columns")
        _check_all([quantities], ("rows", "columns"), f"{source}: `quantities` must be rows or columns")
        cells = tuple(_quantity(each, source) for each in content["cells"])
        _check_all(lists["compare"], levels, f"{source}: `compare` must name rows or columns")
        texts = {name: str(content[name]) for name in ("title", "repeat", "table") if name in content}
        where, networks = flat(content.get("where", {})), _networks(content.get("networks", ()), source)
        read: dict[str, Any] = {**lists, **texts, "cells": cells, "where": where, "networks": networks}
        return cls(**{**content, **read})


@cache
def layouts() -> Mapping[str, Path]:
    papers = ("mukhoti", "komisarenko", "fcl")
    keys = {path: path.stem.split("-") for path in FOLDER.glob("*.toml")}
    ordered = sorted(keys, key=lambda path: (papers.index(keys[path][0]), int(keys[path][1])))
    return {path.stem: path for path in ordered}


def layout_named(name: str) -> Layout:
    """Load a layout by name, or from a TOML file.

    Raises:
        InputError: If there is none, it is not TOML, or :meth:`Layout.read` refuses it.
        OSError: If the file cannot be read.

    Example:
        >>> layout_named("mukhoti-1").table
        '1'
    """
    remedy = " see `calibrant table --list`; a file ends in .toml."
    path = Path(name) if name.endswith(".toml") else named(name, layouts(), "layout", remedy=remedy)
    return Layout.read(read_toml(path), source=str(path))


def shown_usually(source: str | None, name: str) -> dict[str, Any]:
    """Return a quantity's default title, scale (fractions in per cent), unit, digits and better end."""
    from calibrant.evaluation.quantities import QUANTITIES

    metrics = QUANTITIES if source == "metric" and name != "error" else ()
    for each in metrics:
        if name in {each.key, each.event_key}:
            form = _PERCENT if each.bounds == (0.0, 1.0) else _PLAIN
            better = each.better if each.better in {"lower", "higher"} else None
            return {"title": each.title, "better": better, **form}
    plain: dict[str, Any] = {"title": name.rpartition(".")[2].replace("_", " "), "better": None, **_PLAIN}
    return plain | _USUAL.get((source, name), {})


def _quantity(content: Any, source: str) -> TableQuantity:
    if not isinstance(content, dict):
        raise InputError(f"{source}: write [[cells]], with double brackets, and entries below it.")
    known = [*SOURCES, *(each.name for each in fields(TableQuantity) if each.name not in {"source", "name"})]
    _check_known(content, known, f"{source}: [[cells]] has no entry")
    given = [each for each in SOURCES if each in content]
    printed = content.get("published")
    if len(given) > 1 or not (given or printed):
        raise InputError(f"{source}: each of [[cells]] must have one of {', '.join(SOURCES)}; got {given}.")
    kind: Any = given[0] if given else None
    name = str(content[kind]) if kind else ""
    _check_all([name] if kind == "spent" else [], ("wall", "cpu"), f"{source}: `spent` must be wall or cpu")
    entries = shown_usually(kind, name) | {key: value for key, value in content.items() if key != kind}
    known = ("lower", "higher", None, "neither")
    _check_all([entries["better"]], known, f"{source}: `better` must be lower, higher or neither")
    stage = content.get("stage", ())
    read: dict[str, Any] = {
        "better": None if entries["better"] == "neither" else entries["better"],
        "stage": (stage,) if isinstance(stage, str) else tuple(stage),
        "published": printed and (str(printed["metric"]), str(printed["stage"])),
    }
    return TableQuantity(source=kind, name=name, **{**entries, **read})


def _check_known(content: Iterable[str], known: list[str], said: str) -> None:
    for key in content:
        if key not in known:
            raise InputError(f"{said} {key!r}{nearest(key, known)}")


def _check_all(names: Iterable[Any], known: Iterable[Any], said: str) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"{said}; got {name!r}.")


def _networks(content: Any, source: str) -> tuple[tuple[str, str], ...]:
    known = cast("Mapping[str, Any]", roster()["networks"])
    if isinstance(content, str) and content not in known:
        raise InputError(f"there are no networks {content!r}{nearest(content, known)}")
    try:
        pairs = known[content] if isinstance(content, str) else content
        return tuple((str(dataset), str(model)) for dataset, model in pairs)
    except (TypeError, ValueError) as error:
        raise InputError(
            f'{source}: `networks` must be pairs, as in [["CIFAR-10", "ResNet-50"]]; got {content!r}.'
        ) from error


def usual_layout(results: Sequence[RunResult]) -> Layout:
    """Return rows of varying settings; error, NLL, ECE before and after calibration, and temperature."""
    if not results:
        raise InputError("there is no run to make a table of.")
    settings = results[0].settings
    rows = varying(results, "seed") or ["loss" if "loss" in settings else next(iter(settings))]
    compare = ["loss"] if "loss" in rows else rows
    return Layout.read({"rows": rows, "compare": compare, "cells": _usual_cells(results)})


def varying(results: Sequence[RunResult], repeat: str) -> list[str]:
    """Return settings that vary between runs: the grids' axes, then others that vary independently."""

    def kinds(*names: str) -> int:
        return len({repr([each.settings.get(name) for name in names]) for each in results})

    axes = dict.fromkeys(name for each in results for name in each.axes)
    kept: list[str] = []
    for name in dict.fromkeys([*axes, *(name for each in results for name in each.settings)]):
        cosmetic = name == repeat or name.partition(".")[0] in _ASIDE or kinds(name) == 1
        follows = name.endswith("seed") and kinds(repeat, name) == kinds(repeat)
        if not cosmetic and not follows and (name in axes or kinds(*kept, name) > kinds(*kept)):
            kept.append(name)
    return kept


def _usual_cells(results: Sequence[RunResult]) -> list[dict[str, Any]]:
    stages = [*dict.fromkeys(stage for each in results for stage in each.metrics)]
    known = [*dict.fromkeys(name for each in results for stage in each.metrics.values() for name in stage)]
    if not stages:
        raise InputError("no run has a number to show; `calibrant runs` says what became of them.")
    if "ece" not in known or len(stages) < 2:
        return [{"metric": name} for name in known[:_MOST]]
    after = stage_of(stages[1:], ["temperature"]) or stages[1]
    name = after.partition("(")[0]
    said = f"after {'T' if name == 'temperature' else name}"
    first = [name for name in ("error", "nll", "ece") if name in known]
    cells = [{"metric": name, "stage": stages[0]} for name in first]
    later = [(name, f"{_AFTER[name]} {said}") for name in first if name in _AFTER]
    cells += [{"metric": name, "stage": after, "title": title} for name, title in later]
    if any("temperature" in each.parameters.get(after, {}) for each in results):
        cells.append({"parameter": "temperature", "stage": after})
    return cells
