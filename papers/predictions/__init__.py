"""Every file of predictions, judged as it came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from papers.predictions.words import words
from papers.study import DATA, OUT_PAGES, Page, Session, Study, data_folder

PAGE = Page(name="prediction-files", template=Path(__file__).with_name("page.md.j2"), words=words)


def _run(session: Session, *, data: Path | None, out: Path) -> Sequence[Path | str]:
    from papers.predictions.measure import judge_folder

    return PAGE.write(judge_folder(data_folder(data), progress=session.progress), out)


PREDICTIONS = Study(
    name="predictions",
    summary="Evaluate every file of predictions in a folder, uncalibrated.",
    run=_run,
    options=(DATA, OUT_PAGES),
    pages=(PAGE,),
)
