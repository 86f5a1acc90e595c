"""Every calibrator on every file of logits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from papers.calibrators.claims import claims
from papers.calibrators.numbers import exchanged
from papers.calibrators.words import words
from papers.study import DATA, OUT, PAGES, SEEDS, Page, Session, Study, data_folder

PAGE = Page(
    name="calibrators",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=exchanged,
    departs="Outputs of networks that others trained, none of them the paper's.",
)


def _run(session: Session, *, data: Path | None, out: Path, seeds: int, table: Path | None) -> Sequence[Path]:
    from calibrant.evaluation.versions import versions
    from papers.calibrators.measure import run_calibrator_study
    from papers.calibrators.numbers import numbers_of

    records = run_calibrator_study(data_folder(data), out, seeds=range(seeds), tell=session.tell)
    return PAGE.write(numbers_of(records.all(), range(seeds), versions()), table or out)


CALIBRATORS = Study(
    name="calibrators",
    summary="Cross-validate every calibrator on every file of logits in a folder.",
    run=_run,
    options=(DATA, OUT, SEEDS, PAGES),
    pages=(PAGE,),
    records=("calibrators-runs.jsonl",),
)
