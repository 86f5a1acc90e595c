"""How linear the best temperature is in the exponent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.experiments.studies.temperature_line.claims import claims, swapped
from calibrant.experiments.studies.temperature_line.numbers import numbers_of, words
from calibrant.experiments.study import DATA, OUT, PAGES, SEEDS, Page, Session, Study, data_folder

if TYPE_CHECKING:
    from calibrant.experiments.studies.temperature_line.measure import World

PAGE = Page(
    name="temperature-line",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("temperature-line.svg",),
)


def _run(
    session: Session,
    worlds: Sequence[World] | None = None,
    *,
    data: Path | None,
    out: Path,
    seeds: int,
    table: Path | None,
) -> Sequence[Path]:
    from calibrant.experiments.studies.temperature_line import measure
    from calibrant.experiments.studies.temperature_line.figures import draw_figure

    folder = None if data is None else data_folder(data)  # without it, only the networks on digits
    small = worlds is not None
    records = measure.run_temperature_line(
        out,
        folder=folder,
        seeds=range(seeds),
        worlds=worlds if small else measure.WORLDS,
        divisions=1 if small else measure.DIVISIONS,
        tell=session.tell,
    )
    numbers = numbers_of(records)
    return PAGE.write(numbers, table or out, [draw_figure(numbers)])


def _small() -> Sequence[World]:
    from calibrant.experiments.studies.demo.networks import Setting
    from calibrant.experiments.studies.temperature_line.measure import World

    setting = Setting(side=4, num_training=1700, num_calibration=20, num_epochs=1, batch_size=100)
    return (World(title="digits", setting=setting),)


TEMPERATURE_LINE = Study(
    name="temperature-line",
    summary="How linear the best temperature is in the exponent: prediction files and small networks.",
    run=_run,
    options=(DATA, OUT, SEEDS, PAGES),
    pages=(PAGE,),
    records=("temperature-line-runs.jsonl",),
    small=_small,
)
