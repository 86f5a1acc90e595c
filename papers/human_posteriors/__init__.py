"""A network's probabilities against the judgements of fifty people an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from papers.claims import sides_exchanged
from papers.human_posteriors.claims import claims
from papers.human_posteriors.numbers import words
from papers.study import DATA, OUT_PAGES, Page, Session, Study, data_folder

PAGE = Page(
    name="human-posteriors",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=sides_exchanged,
    departs="The papers do not speak of people's judgements; two networks that others "
    "trained with cross-entropy.",
)


def _run(session: Session, *, data: Path | None, out: Path) -> Sequence[Path]:
    from papers.human_posteriors.measure import results

    return PAGE.write(results(data_folder(data), tell=session.progress), out)


HUMAN_POSTERIORS = Study(
    name="human-posteriors",
    summary="Compare a network's probabilities with those of people.",
    run=_run,
    options=(DATA, OUT_PAGES),
    pages=(PAGE,),
)
