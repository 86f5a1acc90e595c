"""How linear the best temperature is in the exponent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.study import (
    ADDED,
    DATA,
    SEEDS_OF_GRID,
    STORE,
    Page,
    Session,
    Study,
    data_folder,
)
from papers.temperature_line.claims import claims, swapped
from papers.temperature_line.numbers import kept_of, numbers_of, words

GRID = Path(__file__).with_name("grid.toml")
SMALL = {"side": 4, "num_training": 1700, "num_calibration": 20, "num_epochs": 1, "divisions": 1}


PAGE = Page(
    name="temperature-line",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("temperature-line.svg",),
    kept=lambda result: {"arms": [kept_of(arm) for arm in result.rows[0]["arms"]]},
    numbers=numbers_of,
    departs="Outputs of networks that others trained, and small networks of ours.",
)


def _run(
    session: Session,
    changes: Mapping[str, Any] | None = None,
    *,
    data: Path | None,
    out: Path | None,
    seeds: int | None,
    table: Path | None,
) -> Sequence[Path]:
    from calibrant._math.worker_processes import changed_environment
    from papers.study_runs import grid_of, make_pages
    from papers.temperature_line.measure import subjects_of

    folder = None if data is None else data_folder(data)
    with changed_environment({} if folder is None else {"CALIBRANT_DATA": str(folder.absolute())}):
        grid = grid_of(GRID, seeds=seeds, changes=changes or {"axes": {"subject": subjects_of(folder)}})
        return make_pages(session, grid, [PAGE], out=out, table=table)


TEMPERATURE_LINE = Study(
    name="temperature-line",
    summary="Test whether the best temperature is linear in the exponent.",
    run=_run,
    options=(DATA, STORE, SEEDS_OF_GRID, ADDED),
    pages=(PAGE,),
    grid=GRID,
    small=lambda: {"settings": SMALL, "axes": {"subject": ["digits, little data"]}},
)
