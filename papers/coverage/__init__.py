"""How often the intervals of calibration errors cover, and how often chance alone raises an alarm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from papers.coverage import settings
from papers.coverage.claims import claims
from papers.coverage.numbers import numbers_of
from papers.coverage.words import words
from papers.study import DATA, OUT, SEEDS, TABLE, Page, Session, Study, data_folder

PAGE = Page(name="coverage", template=Path(__file__).with_name("page.md.j2"), words=words, claims=claims)


def _run(
    session: Session,
    setting: settings.Setting = settings.DEFAULT,
    *,
    data: Path | None,
    out: Path,
    seeds: int,
    table: Path | None,
) -> Sequence[Path]:
    from papers.coverage.again import run_again
    from papers.coverage.alarms import run_alarms
    from papers.coverage.measure import finished, run_coverage

    if table is not None:
        from papers.coverage.summary import write_summary

        numbers = numbers_of(finished(out, setting), setting)
        return [*PAGE.write(numbers, table), *write_summary(numbers, table)]
    folder = None if data is None else data_folder(data)  # without it, only the simulated predictions
    run_coverage(out, folder=folder, seeds=range(seeds), setting=setting, tell=session.tell)
    run_alarms(out, folder=folder, seeds=range(seeds), setting=setting, tell=session.tell)
    run_again(out, folder=folder, seeds=range(seeds), setting=setting, tell=session.tell)
    return PAGE.write(numbers_of(finished(out, setting), setting), out)


def _small() -> settings.Setting:
    method = settings.Method(num_draws=40, sets=2, rarely=1, resamples=20, truth_samples=2000, changed_sets=1)
    return settings.Setting(
        method=method,
        classes=(2, 3),
        samples=(60,),
        scales=(1.0,),
        alarm_sets=2,
        changed_classes=(3,),
        changes=((1.6, 1.0),),
    )


COVERAGE = Study(
    name="coverage",
    summary="Measure interval coverage and false alarms of checks and verdicts.",
    run=_run,
    options=(DATA, OUT, SEEDS, TABLE),
    pages=(PAGE,),
    records=("coverage-runs.jsonl",),
    small=_small,
)
