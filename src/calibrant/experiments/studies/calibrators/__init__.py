"""Every calibrator on every file of logits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.experiments.study import DATA, OUT, SEEDS, TABLE, Session, Study, data_folder


def _run(
    session: Session, *, data: Path | None, out: Path, seeds: int, table: Path | None
) -> Sequence[Path | str]:
    from calibrant.experiments.studies.calibrator_study import read_trials, run_calibrator_study
    from calibrant.experiments.studies.calibrator_study_page import write_pages

    if table is None:
        done = run_calibrator_study(data_folder(data), out, seeds=range(seeds), tell=session.tell)
        return [f"{done}; --table FOLDER writes what it shows."]
    trials = read_trials(out / "trials.jsonl")
    if not trials:
        raise InputError(f"{out} holds no trials; run `calibrant study calibrators --out {out}` first.")
    return write_pages(trials, table)


STUDY = Study(
    name="calibrators",
    summary="Every calibrator on every file of logits in a folder, over ten divisions into halves.",
    run=_run,
    options=(DATA, OUT, SEEDS, TABLE),
    records=("trials.jsonl", "calibrators.md", "calibrators.json"),
)
