"""How linear the best temperature is in the exponent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.experiments.studies.temperature_line.claims import claims, swapped
from calibrant.experiments.studies.temperature_line.numbers import numbers_of, words
from calibrant.experiments.study import DATA, OUT, PAGES, SEEDS, Page, Session, Study, data_folder

GRID = Path(__file__).with_name("grid.toml")
PAGE = Page(
    name="temperature-line",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("temperature-line.svg",),
    departs="Outputs of networks that others trained, and small networks of ours.",
)


def _run(
    session: Session,
    changes: Mapping[str, Any] | None = None,
    *,
    data: Path | None,
    out: Path,
    seeds: int,
    table: Path | None,
) -> Sequence[Path]:
    from calibrant.experiments.engines.perform import changed_environment
    from calibrant.experiments.studies.temperature_line.figures import draw_figure
    from calibrant.experiments.studies.temperature_line.measure import subjects_of
    from calibrant.experiments.study_runs import runs_of

    folder = None if data is None else data_folder(data)
    with changed_environment({} if folder is None else {"CALIBRANT_DATA": str(folder.absolute())}):
        found = changes or {"axes": {"subject": subjects_of(folder)}}
        numbers = numbers_of(runs_of(GRID, session, out=out, seeds=seeds, changes=found))
    return PAGE.write(numbers, table or out, [draw_figure(numbers)])


TEMPERATURE_LINE = Study(
    name="temperature-line",
    summary="How linear the best temperature is in the exponent: prediction files and small networks.",
    run=_run,
    options=(DATA, OUT, SEEDS, PAGES),
    pages=(PAGE,),
    grid=GRID,
    small=lambda: {
        "settings": {
            "side": 4,
            "num_training": 1700,
            "num_calibration": 20,
            "num_epochs": 1,
            "divisions": 1,
        },
        "axes": {"subject": ["digits, little data"]},
    },
)
