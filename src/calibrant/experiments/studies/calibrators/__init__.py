"""Every calibrator on every file of logits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.experiments.studies.calibrators.words import words
from calibrant.experiments.study import DATA, OUT, SEEDS, TABLE, Page, Session, Study, data_folder

PAGE = Page(name="calibrators", template=Path(__file__).with_name("page.md.j2"), words=words)


def _run(
    session: Session, *, data: Path | None, out: Path, seeds: int, table: Path | None
) -> Sequence[Path | str]:
    from calibrant.evaluation.versions import versions
    from calibrant.experiments.studies.calibrators.measure import RECORDS, run_calibrator_study
    from calibrant.experiments.studies.calibrators.numbers import numbers_of, read_trials

    if table is None:
        done = run_calibrator_study(data_folder(data), out, seeds=range(seeds), tell=session.tell)
        return [f"{done}; --table FOLDER writes what it shows."]
    trials = read_trials(out / RECORDS)
    if not trials:
        raise InputError(f"{out} holds no trials; run `calibrant study calibrators --out {out}` first.")
    return PAGE.write(numbers_of(trials, versions()), table)


CALIBRATORS = Study(
    name="calibrators",
    summary="Every calibrator on every file of logits in a folder, over ten divisions into halves.",
    run=_run,
    options=(DATA, OUT, SEEDS, TABLE),
    # Not among `pages` until the results are made anew: today's results file lacks the single divisions.
    records=("trials.jsonl", *PAGE.files),
)
