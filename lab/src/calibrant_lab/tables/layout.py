"""What a table shows: rows, columns and cells as a TOML file asks for them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from calibrant._math.errors import InputError
from calibrant._math.text_form import named, nearest
from calibrant_lab.sweep.published import paper_named
from calibrant_lab.tables.names import LEVELS, networks
from calibrant_lab.tables.usual import usual

Side: TypeAlias = Literal["rows", "columns"]
FoundIn: TypeAlias = Literal["metric", "parameter", "last", "setting", "more", "spent"]
SOURCES: tuple[FoundIn, ...] = get_args(FoundIn)
FOLDER = Path(__file__).with_name("layouts")


@dataclass(frozen=True, kw_only=True)
class TableQuantity:
    """What stands in a cell.

    Attributes:
        title: Its head.
        source: Where in a run's result it is found: a ``metric``, a fitted ``parameter``, the ``last`` of
            what was recorded after each epoch, a ``setting``, something in ``more``, or what was ``spent``;
            None for what only a paper has.
        name: What it is called there.
        stage: Names of stages, of which the first that a run has counts; empty for the run's first stage.
        scale: What it is multiplied by.
        unit: Its unit then.
        digits: Digits after the point.
        better: ``lower`` or ``higher``; None where neither end is better, so that none is best.
        bracket: A parameter of the same stage to be shown in brackets.
        published: Metric and stage by which the paper's number is found.
    """

    title: str
    source: FoundIn | None
    name: str
    stage: tuple[str, ...] = ()
    scale: float = 1.0
    unit: str = ""
    digits: int = 3
    better: Literal["lower", "higher"] | None = None
    bracket: str | None = None
    published: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Rows, columns and cells of a table.

    Attributes:
        title: What it is a table of.
        rows: Settings whose values make the rows; of a paper's table its own names for them: ``dataset``,
            ``model``, ``method``, ``calibrator``.
        columns: The same of the columns; may be empty.
        cells: What stands in the cells.
        quantities: Whether these are columns or rows, below the others.
        compare: The rows and columns whose values are compared with one another.
        repeat: The setting over which means are taken, and by which differences are paired.
        where: Settings that a run must have to count.
        paper: The paper whose numbers stand beside ours.
        table: Its table.
        networks: Its data sets, each with a network.
        methods: Its methods.
        calibrators: Its calibrators.
        notes: Sentences to stand below the table.
        said: What of the remarks of the published file these sentences say already.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...] = ()
    cells: tuple[TableQuantity, ...]
    quantities: Side = "columns"
    compare: tuple[str, ...] = ()
    repeat: str = "seed"
    where: Mapping[str, Any] = field(default_factory=dict[str, Any])
    paper: str | None = None
    table: str = ""
    networks: tuple[tuple[str, str], ...] = ()
    methods: tuple[str, ...] = ()
    calibrators: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def levels(self) -> tuple[str, ...]:
        """Rows, then columns."""
        return (*self.rows, *self.columns)

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
        known = [each.name for each in fields(cls)]
        for key in content:
            if key not in known:
                raise InputError(f"{source}: there is no entry {key!r}{nearest(key, known)}")
        cells, paper = content.get("cells"), content.get("paper")
        if not isinstance(cells, list) or not cells:
            raise InputError(f'{source}: write [[cells]] and below it what they show, as metric = "ece".')
        lists = {
            name: _texts(content, name, source)
            for name in ("rows", "columns", "compare", "methods", "calibrators", "notes", "said")
        }
        if not lists["rows"]:
            raise InputError(f'{source}: `rows` must name settings, as in rows = ["loss"]; got none.')
        if paper is not None:
            paper_named(paper)
            wrong = [each for each in (*lists["rows"], *lists["columns"]) if each not in LEVELS]
            if wrong:
                raise InputError(
                    f"{source}: with `paper`, rows and columns are {', '.join(LEVELS)}; got {wrong[0]!r}."
                )
        found = cls(
            title=str(content.get("title", "")),
            cells=tuple(_quantity(each, source) for each in cells),
            quantities=_choice(content, "quantities", get_args(Side), "columns", source),
            repeat=str(content.get("repeat", "seed")),
            where=_flat(content.get("where", {})),
            paper=paper,
            table=str(content.get("table", "")),
            networks=_networks(content.get("networks", ()), source),
            **lists,
        )
        for each in found.compare:
            if each not in found.levels:
                raise InputError(f"{source}: `compare` must name rows or columns; got {each!r}.")
        return found


def load_layout(path: str | os.PathLike[str]) -> Layout:
    """Read a layout from a TOML file.

    Raises:
        InputError: If it is not TOML, or :meth:`Layout.read` refuses it.
        OSError: If the file cannot be read.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}.") from error
    return Layout.read(content, source=str(path))


@cache
def layouts() -> Mapping[str, Path]:
    """The layouts that come with the library, by name, in the order of the papers' tables."""

    def order(path: Path) -> tuple[str, int]:
        paper, _, table = path.stem.rpartition("-")
        return paper, int(table)

    names = {path.stem: path for path in sorted(FOLDER.glob("*.toml"), key=order)}
    papers = ("mukhoti", "komisarenko", "fcl")
    return {name: names[name] for paper in papers for name in names if name.startswith(f"{paper}-")}


def layout_named(name: str) -> Layout:
    """A layout by its name, or by the path of a TOML file.

    Raises:
        InputError: If there is none.

    Example:
        >>> layout_named("mukhoti-1").table
        '1'
    """
    if name.endswith(".toml"):
        return load_layout(name)
    return load_layout(
        named(name, layouts(), "layout", remedy=" `calibrant table --list` says more; a file ends in .toml.")
    )


_IN_CELLS = (*SOURCES, "title", "stage", "scale", "unit", "digits", "better", "bracket", "published")


def _quantity(content: Any, source: str) -> TableQuantity:
    if not isinstance(content, dict):
        raise InputError(f"{source}: write [[cells]], with double brackets, and entries below it.")
    for key in content:
        if key not in _IN_CELLS:
            raise InputError(f"{source}: [[cells]] has no entry {key!r}{nearest(key, _IN_CELLS)}")
    given = [each for each in SOURCES if each in content]
    printed = content.get("published")
    if len(given) > 1 or not (given or printed):
        raise InputError(f"{source}: each of [[cells]] must have one of {', '.join(SOURCES)}; got {given}.")
    kind = cast("FoundIn", given[0]) if given else None
    name = str(content[kind]) if kind else ""
    stage = content.get("stage", ())
    usually = usual(kind, name)
    better = content.get("better", usually["better"])
    if better not in {"lower", "higher", None, "neither"}:
        raise InputError(f"{source}: `better` must be lower, higher or neither; got {better!r}.")
    return TableQuantity(
        title=str(content.get("title", usually["title"])),
        source=kind,
        name=name,
        stage=(stage,) if isinstance(stage, str) else tuple(stage),
        scale=float(content.get("scale", usually["scale"])),
        unit=str(content.get("unit", usually["unit"])),
        digits=int(content.get("digits", usually["digits"])),
        better=None if better == "neither" else better,
        bracket=content.get("bracket"),
        published=None if printed is None else (str(printed["metric"]), str(printed["stage"])),
    )


def _texts(content: Mapping[str, Any], name: str, source: str) -> tuple[str, ...]:
    found = content.get(name, ())
    if isinstance(found, str) or not all(isinstance(each, str) for each in found):
        raise InputError(f"{source}: `{name}` must be a list of texts; got {found!r}.")
    return tuple(found)


def _choice(content: Mapping[str, Any], name: str, known: Sequence[str], usual: Any, source: str) -> Any:
    found = content.get(name, usual)
    if found not in known:
        raise InputError(f"{source}: `{name}` must be {' or '.join(known)}; got {found!r}.")
    return found


def _networks(content: Any, source: str) -> tuple[tuple[str, str], ...]:
    if isinstance(content, str):
        return tuple(networks(content))
    try:
        return tuple((str(dataset), str(model)) for dataset, model in content)
    except (TypeError, ValueError) as error:
        raise InputError(
            f'{source}: `networks` must be pairs, as in [["CIFAR-10", "ResNet-50"]]; got {content!r}.'
        ) from error


def _flat(table: Any) -> dict[str, Any]:
    """Tables in tables as full names."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found |= {f"{name}.{key}": inner for key, inner in _flat(value).items()}
        else:
            found[name] = value
    return found
