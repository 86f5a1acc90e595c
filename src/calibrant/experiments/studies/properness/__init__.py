"""Which losses are proper, keep the class and are convex."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant.experiments.study import OUT_PAGES, Session, Study


def _run(session: Session, *, out: Path) -> Sequence[Path | str]:
    from calibrant.experiments.studies.properness_table import properness_table, write_properness

    return write_properness(properness_table(progress=session.progress), out)


STUDY = Study(
    name="properness",
    summary="Every loss: is it proper, does it keep the class, is it convex, how sure does it make one.",
    run=_run,
    options=(OUT_PAGES,),
    records=("properness.md", "properness.json"),
)
