"""Focal loss, curvature and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.experiments.studies.curvature import settings
from calibrant.experiments.studies.curvature.claims import claims
from calibrant.experiments.studies.curvature.numbers import numbers_of, runs_from, settings_from, swapped
from calibrant.experiments.studies.curvature.words import words
from calibrant.experiments.study import OUT, SEEDS, SETTING, TABLE, Page, Session, Study

PAGE = Page(
    name="curvature",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("curvature.svg", "curvature-ece.svg"),
)


def _run(
    session: Session, *, out: Path, setting: Sequence[str] | None, seeds: int, table: Path | None
) -> Sequence[Path | str]:
    from calibrant.experiments.studies.curvature.figures import draw_path, draw_scatter
    from calibrant.experiments.studies.curvature.measure import finished_runs, run_curvature_study

    wanted = [settings.setting_named(key) for key in setting] if setting else list(settings.SETTINGS)
    if table is None:
        done = run_curvature_study(out, seeds=range(seeds), settings=wanted, tell=session.tell)
        return [f"{len(done)} runs are finished; --table FOLDER writes what they show."]
    records = finished_runs(out, seeds=range(seeds), settings=wanted)
    if not records:
        raise InputError(f"{out} holds no runs; run `calibrant study curvature --out {out}` first.")
    numbers = numbers_of(records, wanted)
    runs, having = runs_from(numbers), settings_from(numbers)
    return PAGE.write(numbers, table, [draw_path(runs, having), draw_scatter(runs, having)])


CURVATURE = Study(
    name="curvature",
    summary="Does focal loss calibrate by lowering curvature? Some 300 small networks, measured.",
    run=_run,
    options=(OUT, SETTING, SEEDS, TABLE),
    pages=(PAGE,),
    records=("curvature-runs.jsonl",),
)
