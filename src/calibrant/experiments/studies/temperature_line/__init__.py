"""How linear the best temperature is in the exponent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant.experiments.study import DATA, OUT, PAGES, SEEDS, Session, Study, data_folder


def _run(
    session: Session, *, data: Path | None, out: Path, seeds: int, table: Path | None
) -> Sequence[Path | str]:
    from calibrant.experiments.studies.temperature_line.measure import run_temperature_line
    from calibrant.experiments.studies.temperature_line.page import write_temperature_line

    folder = None if data is None else data_folder(data)  # without files, of networks on digits alone
    records = run_temperature_line(out, folder=folder, seeds=range(seeds), tell=session.tell)
    return write_temperature_line(records, table or out)


STUDY = Study(
    name="temperature-line",
    summary="How linear the best temperature is in the exponent: prediction files and small networks.",
    run=_run,
    options=(DATA, OUT, SEEDS, PAGES),
    records=(
        "temperature-line-runs.jsonl",
        "temperature-line.md",
        "temperature-line.json",
        "temperature-line.svg",
    ),
)
