"""Cross-entropy and focal loss on a linear model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant.experiments.studies.linear_model import settings
from calibrant.experiments.studies.linear_model.claims import claims, swapped
from calibrant.experiments.studies.linear_model.numbers import numbers_of, words
from calibrant.experiments.study import OUT, PAGES, SEEDS, Page, Session, Study

PAGE = Page(
    name="linear-model",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("linear-model.svg",),
)


def _run(
    session: Session,
    setting: settings.Setting = settings.DEFAULT,
    *,
    out: Path,
    seeds: int,
    table: Path | None,
) -> Sequence[Path]:
    from calibrant.experiments.studies.linear_model.figures import draw_figure
    from calibrant.experiments.studies.linear_model.measure import run_linear_model

    records = run_linear_model(out, seeds=range(seeds), setting=setting, tell=session.tell)
    return PAGE.write(numbers_of(records, setting), table or out, [draw_figure(records)])


LINEAR_MODEL = Study(
    name="linear-model",
    summary="Cross-entropy and focal loss on a linear model: norms, confidence of mistakes, curvature.",
    run=_run,
    options=(OUT, SEEDS, PAGES),
    pages=(PAGE,),
    records=("linear-model-runs.jsonl",),
    small=lambda: settings.Setting(num_samples=80, num_test=400, learning_rate=0.5, iterations=300),
)
