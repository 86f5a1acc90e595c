"""The focal map on real files and stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant_lab.sweep.published import FOLDER
from papers.claims import sides_exchanged
from papers.study import DATA, OUT_PAGES, PAGES, PUBLISHED, Page, Session, Study, data_folder
from papers.theory_on_data.claims import claims
from papers.theory_on_data.numbers import words

PAGE = Page(
    name="theory-on-data",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=sides_exchanged,
    departs="Small networks of ours, and published temperatures of one run each.",
)


def _run(
    session: Session, *, data: Path | None, out: Path, table: Path | None, published: Path | None
) -> Sequence[Path]:
    from papers.theory_on_data import measure

    folder = table or out
    files, left_out = measure.theory_on_files(data_folder(data), progress=session.progress)
    needed = measure.stored_temperatures(folder) + measure.published_temperatures(published or FOLDER)
    return PAGE.write(measure.results(files, left_out, needed), folder)


THEORY_ON_DATA = Study(
    name="theory-on-data",
    summary="Test the theory of the focal map on real files and stored runs.",
    run=_run,
    options=(DATA, OUT_PAGES, PAGES, PUBLISHED),
    pages=(PAGE,),
)
