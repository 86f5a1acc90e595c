"""Cross-entropy's over-confidence on new samples and focal loss's compensation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.experiments.studies.generalisation_gap.claims import claims, swapped
from calibrant.experiments.studies.generalisation_gap.words import words
from calibrant.experiments.study import OUT, PAGES, SEEDS, Page, Session, Study

GRID = Path(__file__).with_name("grid.toml")
PAGE = Page(
    name="generalisation-gap",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("generalisation-gap.svg",),
    departs="A linear model in a simulated world, where the paper has networks.",
)


def _run(
    session: Session, changes: Mapping[str, Any] | None = None, *, out: Path, seeds: int, table: Path | None
) -> Sequence[Path]:
    from calibrant.experiments.studies.generalisation_gap.figures import draw_figure
    from calibrant.experiments.studies.generalisation_gap.measure import results
    from calibrant.experiments.study_runs import runs_of

    numbers = results(runs_of(GRID, session, out=out, seeds=seeds, changes=changes))
    return PAGE.write(numbers, table or out, [draw_figure(numbers)])


GENERALISATION_GAP = Study(
    name="generalisation-gap",
    summary="Where the truth is known: over-confidence by sample size, capacity and exponent.",
    run=_run,
    options=(OUT, SEEDS, PAGES),
    pages=(PAGE,),
    grid=GRID,
    small=lambda: {"zip": [{"num_samples": [200], "num_features": [2]}]},
)
