"""The SST row of the papers: a Tree-LSTM with all losses, published numbers beside ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from calibrant.experiments.studies.sst.claims import claims
from calibrant.experiments.studies.sst.numbers import swapped
from calibrant.experiments.studies.sst.words import words
from calibrant.experiments.study import OUT, PAGES, Page, Session, Study

PAGE = Page(
    name="sst",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    departs="Word vectors of 100 dimensions, where theirs have 300 and are trained on more text.",
)


def _run(session: Session, *, out: Path, table: Path | None) -> Sequence[Path]:
    from calibrant.experiments.studies.sst.measure import results

    session.progress("reading runs", 0.0)
    kept = (table or out) / PAGE.files[1]
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else None
    return PAGE.write(results(out, known), table or out)


SST = Study(
    name="sst",
    summary="The SST row of the papers, from a store of runs, published numbers beside ours.",
    run=_run,
    options=(OUT, PAGES),
    pages=(PAGE,),
)
