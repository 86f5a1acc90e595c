"""Cross-entropy and focal loss on a linear model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant.experiments.studies.linear_model.claims import claims, swapped
from calibrant.experiments.studies.linear_model.numbers import numbers_of, words
from calibrant.experiments.study import OUT, PAGES, SEEDS, Page, Session, Study

GRID = Path(__file__).with_name("grid.toml")
PAGE = Page(
    name="linear-model",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("linear-model.svg",),
    departs="Number of points, their spread and the learning rate are not in the paper and are ours.",
)


def _run(
    session: Session, changes: Mapping[str, Any] | None = None, *, out: Path, seeds: int, table: Path | None
) -> Sequence[Path]:
    from calibrant.experiments.studies.linear_model.figures import draw_figure
    from calibrant.experiments.study_runs import runs_of

    runs = runs_of(GRID, session, out=out, seeds=seeds, changes=changes)
    return PAGE.write(numbers_of(runs), table or out, [draw_figure(runs)])


LINEAR_MODEL = Study(
    name="linear-model",
    summary="Cross-entropy and focal loss on a linear model: norms, confidence of mistakes, curvature.",
    run=_run,
    options=(OUT, SEEDS, PAGES),
    pages=(PAGE,),
    grid=GRID,
    small=lambda: {"settings": {"num_samples": 80, "num_test": 400, "learning_rate": 0.5, "iterations": 300}},
)
