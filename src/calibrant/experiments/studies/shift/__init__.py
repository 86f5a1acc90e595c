"""Networks trained on clean images, judged on corrupted and foreign ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.experiments.studies.shift.claims import claims
from calibrant.experiments.studies.shift.numbers import numbers_of, swapped
from calibrant.experiments.studies.shift.words import words
from calibrant.experiments.study import OUT, PAGES, SEEDS, Page, Session, Study

GRID = Path(__file__).with_name("grid.toml")
PAGE = Page(
    name="shift",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    departs="A small network on 10,000 images of Fashion-MNIST where the papers have ResNets "
    "on CIFAR-10; loss averaged.",
)


def _run(
    session: Session, changes: Mapping[str, Any] | None = None, *, out: Path, seeds: int, table: Path | None
) -> Sequence[Path]:
    from calibrant.experiments.study_runs import carry_out, grid_of, kept_results

    grid = grid_of(GRID, seeds=seeds, changes=changes)
    carry_out(grid, session, out)
    results = kept_results(grid, out)
    numbers = numbers_of(
        [{**each.settings, **each.rows[0]} for each in results],
        wanted=len(grid.points),
        seconds=[each.cpu_seconds for each in results],
    )
    return PAGE.write(numbers, table or out)


SHIFT = Study(
    name="shift",
    summary="Repairs fitted on clean images under corruption, and which losses tell foreign images.",
    run=_run,
    options=(OUT, SEEDS, PAGES),
    pages=(PAGE,),
    grid=GRID,
)
