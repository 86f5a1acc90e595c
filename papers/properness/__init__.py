"""Which losses are proper, keep the class and are convex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.properness.settings import BATCH, MANY, SEED, SEGMENTS
from papers.study import OUT_PAGES, Page, Session, Study


def _words(numbers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    most = max(row["num_posteriors"] for row in numbers)
    return {"most": most, "seed": SEED, "many": MANY, "batch": BATCH, "segments": SEGMENTS}


PAGE = Page(name="properness", template=Path(__file__).with_name("page.md.j2"), words=_words)


def _run(session: Session, *, out: Path) -> Sequence[Path]:
    from dataclasses import asdict

    from papers.properness.measure import properness_table

    return PAGE.write([asdict(row) for row in properness_table(progress=session.progress)], out)


PROPERNESS = Study(
    name="properness",
    summary="Check properness, convexity and implied confidence of every loss.",
    run=_run,
    options=(OUT_PAGES,),
    pages=(PAGE,),
)
