"""Focal loss, curvature and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.curvature.claims import claims
from papers.curvature.numbers import kept_of, numbers_of, swapped
from papers.curvature.settings import setting_named
from papers.curvature.words import words
from papers.study import ADDED, SEEDS_OF_GRID, SETTING, STORE, Page, Session, Study

GRID = Path(__file__).with_name("grid.toml")


PAGE = Page(
    name="curvature",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("curvature.svg", "curvature-ece.svg"),
    kept=lambda result: kept_of({**result.settings, **result.rows[0]}),
    numbers=numbers_of,
    digits=4,
    departs="Small networks; only the paper's abstract was at hand, so that all settings are ours.",
)


def _run(
    session: Session,
    changes: Mapping[str, Any] | None = None,
    *,
    out: Path | None,
    setting: Sequence[str] | None,
    seeds: int | None,
    table: Path | None,
) -> Sequence[Path]:
    from papers.study_runs import grid_of, make_pages

    grid = grid_of(GRID, seeds=seeds, changes=changes)
    if setting:
        grid = grid.only({"setting": [setting_named(key).key for key in setting]})
    return make_pages(session, grid, [PAGE], out=out, table=table)


CURVATURE = Study(
    name="curvature",
    summary="Test whether focal loss calibrates by lowering curvature (300 networks).",
    run=_run,
    options=(STORE, SETTING, SEEDS_OF_GRID, ADDED),
    pages=(PAGE,),
    grid=GRID,
)
