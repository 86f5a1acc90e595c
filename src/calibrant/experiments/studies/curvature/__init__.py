"""Focal loss, curvature and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.experiments.study import OUT, SEEDS, SETTING, TABLE, Session, Study


def _run(
    session: Session, *, out: Path, setting: Sequence[str] | None, seeds: int, table: Path | None
) -> Sequence[Path | str]:
    from calibrant.experiments.studies.curvature_page import write_curvature
    from calibrant.experiments.studies.curvature_settings import SETTINGS, setting_named
    from calibrant.experiments.studies.curvature_study import finished_runs, run_curvature_study

    settings = [setting_named(key) for key in setting] if setting else list(SETTINGS)
    if table is None:
        done = run_curvature_study(out, seeds=range(seeds), settings=settings, tell=session.tell)
        return [f"{len(done)} runs are finished; --table FOLDER writes what they show."]
    found = finished_runs(out, seeds=range(seeds), settings=settings)
    if not found:
        raise InputError(f"{out} holds no runs; run `calibrant study curvature --out {out}` first.")
    return write_curvature(found, table, settings=settings)


STUDY = Study(
    name="curvature",
    summary="Does focal loss calibrate by lowering curvature? Some 300 small networks, measured.",
    run=_run,
    options=(OUT, SETTING, SEEDS, TABLE),
    records=("curvature-runs.jsonl", "curvature.md", "curvature.json", "curvature.svg", "curvature-ece.svg"),
)
