"""The losses on Fashion-MNIST, as it is and long-tailed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant.experiments.study import OUT, PUBLISHED, SEEDS, SETTING, TABLE, Session, Study


def _run(
    session: Session,
    *,
    out: Path,
    setting: Sequence[str] | None,
    seeds: int,
    table: Path | None,
    published: Path | None,
) -> Sequence[Path | str]:
    from calibrant.experiments.studies.loss_study import SETTINGS, run_loss_study, setting_named

    settings = [setting_named(key) for key in setting] if setting else list(SETTINGS)
    if table is not None:
        from calibrant.experiments.studies.loss_study_report import write_results

        return write_results(out, table, settings=settings, seeds=range(seeds), published=published)
    done = run_loss_study(
        out, settings=settings, seeds=range(seeds), command=session.command, tell=session.tell
    )
    return [f"{len(done)} runs are finished; --table FOLDER writes what they show."]


STUDY = Study(
    name="losses",
    summary="The losses on Fashion-MNIST, as it is and long-tailed: some twenty arms, three seeds each.",
    run=_run,
    options=(OUT, SETTING, SEEDS, TABLE, PUBLISHED),
    records=tuple(
        name
        for key in ("fashion-mnist", "long-tail")
        for name in (f"{key}.md", f"{key}.json", f"{key}-ece.svg", f"{key}-weight-norms.svg")
    ),
)
