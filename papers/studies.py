"""The studies: a folder each, with ``run.py``, ``claims.toml``, ``page.md`` and ``results.json``.

``run.py`` has a docstring whose first line is the study's summary (``page.md`` says what is done), and

- ``frames(results)``: data frames of the results, by name;
- ``tables(frames)``: the tables of the page, frames of text, by name;
- ``figure(frames)``: a Matplotlib figure, if the page has one; it is saved as ``NAME.svg``;
- ``packaged(results)``: by file of the package, what it holds of the results, if it holds something;
- ``keep(result)``: what the results hold of a run of ``grid.toml``, or None (default: all that it found);
- ``also()``: what they hold beside the runs, if something;
- of a study without a grid, ``measure(folder, **options)``: the results. It keeps what is done in ``folder``.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from calibrant._math.files import write_text
from calibrant._math.text_form import named
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.kept_runs import content_of, keep, runs_in, united
from calibrant_lab.sweep.tasks.task import RunResult
from calibrant_lab.tables.build import adjusted
from papers.analysis import HERE, LEVEL, Frames, content, filled, verdicts

DIGITS = 6
"""Digits of the numbers in ``results.json`` that count."""


def names() -> list[str]:
    """Return the folders of studies."""
    return sorted(path.parent.name for path in HERE.glob("*/run.py"))


def study(name: str) -> ModuleType:
    """Return a study's module ``run`` by folder name; hyphens become underscores."""
    folder = name.replace("-", "_")
    named(folder, dict.fromkeys(names()), "study", remedy=" `python -m papers` lists them.")
    return import_module(f"papers.{folder}.run")


def has_grid(name: str) -> bool:
    """Return True if a study has runs that are swept over a store."""
    return (HERE / name / "grid.toml").is_file()


def grid_of(name: str, *, seeds: int | None = None) -> Grid:
    """Return a study's grid, optionally with another number of seeds."""
    file = HERE / name / "grid.toml"
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    if seeds is not None:
        content["axes"] = {**content.get("axes", {}), "seed": list(range(seeds))}
    return Grid.read(content, source=str(file))


def kept(name: str, result: RunResult) -> dict[str, Any] | None:
    """Return the stored part of a run's result; None if it is left out."""
    keep = getattr(study(name), "keep", None)
    return (dict(result.rows[0]) or None) if keep is None else keep(result)


def results_of_grid(name: str, store: Path, *, seeds: int | None, old: Any) -> dict[str, Any]:
    """Do the grid's missing runs; return all results, with those of ``old``."""
    from papers.runs import finished_runs

    module, grid = study(name), grid_of(name, seeds=seeds)
    new = [
        keep(result, found, getattr(module, "DIGITS", DIGITS))
        for result in finished_runs(grid, store)
        if (found := kept(name, result)) is not None
    ]
    also = (old or {}).get("also") or getattr(module, "also", dict)()
    return content_of(united([] if old is None else runs_in(old), new, grid.task), also)


@cache
def kept_frames(name: str) -> Frames:
    """Return the frames of a study's committed results, made once."""
    return study(name).frames(content(name))


@cache
def kept_rows(name: str) -> pd.DataFrame:
    """Return the tests of a study's claims on its committed results, made once."""
    return verdicts(name, kept_frames(name))


def write(name: str, folder: Path, results: Mapping[str, Any] | None = None) -> list[Path]:
    """Write a study's page and figures into a folder, and new results."""
    folder.mkdir(parents=True, exist_ok=True)
    module, found = study(name), content(name) if results is None else results
    frames, written = module.frames(found), [folder / "page.md"]
    page = (HERE / name / "page.md").read_text(encoding="utf-8")
    write_text(written[0], filled(page, module.tables(frames), rows_among_all(name, frames)))
    if results is not None:
        written.append(folder / "results.json")
        write_text(written[1], compact(results))
    if hasattr(module, "packaged") and folder == HERE / name:
        for path, told in module.packaged(found).items():
            write_text(path, json.dumps(told, indent=1) + "\n")
            written.append(path)
    if hasattr(module, "figure"):
        from calibrant.reports.figures.drawing import drawing_style, save_figure

        written.append(folder / f"{name.replace('_', '-')}.svg")
        with drawing_style():
            save_figure(module.figure(frames), written[-1])
    return written


def every_row(new: Mapping[str, pd.DataFrame] | None = None) -> pd.DataFrame:
    """Return all studies' tests once, with q and ``left``; ``new`` replaces those of some studies.

    q is p adjusted over each paper's counted claims; ``left`` is the verdict, or undecided unless q < 0.05.
    """
    new = new or {}
    kept = [new[name] if name in new else kept_rows(name) for name in names()]
    rows = pd.concat(kept, ignore_index=True)
    test = ["paper", "estimate", "low", "n"]
    counted = rows[rows.open.eq("")].drop_duplicates(test)
    for method, column in (("benjamini-hochberg", "q"), ("benjamini-yekutieli", "q_any_dependence")):
        found = counted.groupby("paper", group_keys=False).p.apply(adjusted, method)
        known = counted[test].assign(**{column: found})
        rows = rows.merge(known, how="left", on=test)
        rows.loc[rows.open.ne(""), column] = float("nan")
    return rows.assign(left=rows.verdict.mask(rows.q.ge(1 - LEVEL), "undecided"))


def rows_among_all(name: str, frames: Frames) -> pd.DataFrame:
    """Return a study's tests, with q among those of all studies."""
    rows = every_row({name: verdicts(name, frames)})
    return rows[rows.study.eq(name)]


def compact(results: Any) -> str:
    """Return indented JSON, with lists or dictionaries of plain numbers on one line.

    Example:
        >>> print(compact({"each": [1.5, 2], "all": {"mean": 1.75, "n": 2}}), end="")
        {
         "each": [1.5, 2],
         "all": {"mean": 1.75, "n": 2}
        }
    """
    text = json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False)
    plain = r'([\[{])\s+((?:(?:"\w+": )?[-+.\w]+,\s+)*(?:"\w+": )?[-+.\w]+)\s+([\]}])'
    return re.sub(plain, lambda found: f"{found[1]}{' '.join(found[2].split())}{found[3]}", text) + "\n"
