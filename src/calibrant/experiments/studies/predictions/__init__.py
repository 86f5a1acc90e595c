"""Every file of predictions, judged as it came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant.experiments.study import DATA, OUT_PAGES, Session, Study, data_folder


def _run(session: Session, *, data: Path | None, out: Path) -> Sequence[Path | str]:
    from calibrant.experiments.studies.prediction_files import judge_folder, write_table

    return write_table(judge_folder(data_folder(data), progress=session.progress), out)


STUDY = Study(
    name="predictions",
    summary="Every file of predictions in a folder, judged as it came: one row each.",
    run=_run,
    options=(DATA, OUT_PAGES),
    records=("prediction-files.md", "prediction-files.json"),
)
