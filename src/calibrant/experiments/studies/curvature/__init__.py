"""Focal loss, curvature and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant.experiments.studies.curvature.claims import claims
from calibrant.experiments.studies.curvature.numbers import (
    in_order,
    numbers_of,
    runs_from,
    settings_from,
    swapped,
)
from calibrant.experiments.studies.curvature.settings import setting_named
from calibrant.experiments.studies.curvature.words import words
from calibrant.experiments.study import OUT, SEEDS, SETTING, TABLE, Page, Session, Study

GRID = Path(__file__).with_name("grid.toml")
PAGE = Page(
    name="curvature",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("curvature.svg", "curvature-ece.svg"),
    departs="Small networks; only the paper's abstract was at hand, so that all settings are ours.",
)


def _run(
    session: Session,
    changes: Mapping[str, Any] | None = None,
    *,
    out: Path,
    setting: Sequence[str] | None,
    seeds: int,
    table: Path | None,
) -> Sequence[Path | str]:
    from calibrant.experiments.studies.curvature.figures import draw_path, draw_scatter
    from calibrant.experiments.study_runs import carry_out, grid_of, kept_runs

    grid = grid_of(GRID, seeds=seeds, changes=changes)
    if setting:
        grid = grid.only({"setting": [setting_named(key).key for key in setting]})
    if table is None:
        carry_out(grid, session, out)
        return [f"{len(grid.points)} runs are finished; --table FOLDER writes what they show."]
    kept = kept_runs(grid, out)
    if not kept:
        raise InputError(f"{out} holds no runs; run `calibrant study curvature --out {out}` first.")
    numbers = numbers_of(in_order(kept))
    runs, having = runs_from(numbers), settings_from(numbers)
    return PAGE.write(numbers, table, [draw_path(runs, having), draw_scatter(runs, having)])


CURVATURE = Study(
    name="curvature",
    summary="Does focal loss calibrate by lowering curvature? Some 300 small networks, measured.",
    run=_run,
    options=(OUT, SETTING, SEEDS, TABLE),
    pages=(PAGE,),
    grid=GRID,
)
