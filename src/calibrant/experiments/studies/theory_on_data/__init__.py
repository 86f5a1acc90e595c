"""The focal map on real files and stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant.experiments.study import DATA, OUT_PAGES, PAGES, PUBLISHED, Session, Study, data_folder


def _run(
    session: Session, *, data: Path | None, out: Path, table: Path | None, published: Path | None
) -> Sequence[Path | str]:
    from calibrant.experiments.studies.theory_on_data.measure import (
        published_temperatures,
        stored_temperatures,
        theory_on_files,
    )
    from calibrant.experiments.studies.theory_on_data.page import write_theory_on_data

    folder = table or out
    files, without = theory_on_files(data_folder(data), progress=session.progress)
    needed = stored_temperatures(folder)
    if published is not None:
        needed += published_temperatures(published)
    return write_theory_on_data(files, without, needed, folder)


STUDY = Study(
    name="theory-on-data",
    summary="The focal map on real files and stored runs: lowered confidences, products of temperatures.",
    run=_run,
    options=(DATA, OUT_PAGES, PAGES, PUBLISHED),
    records=("theory-on-data.md", "theory-on-data.json"),
)
