"""How calibration changes during a training, and whether the account that is given of it holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.experiments.studies.dynamics.claims import claims
from calibrant.experiments.studies.dynamics.numbers import numbers_of, swapped
from calibrant.experiments.studies.dynamics.words import words
from calibrant.experiments.study import OUT, PAGES, Page, Session, Study

PAGE = Page(
    name="dynamics",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("dynamics.svg",),
    departs="A small network on 10,000 images of Fashion-MNIST; the paper has a ResNet-50 on CIFAR-10.",
)


def _run(session: Session, *, out: Path, table: Path | None) -> Sequence[Path]:
    from calibrant.experiments.grid import load_grid
    from calibrant.experiments.store.store import Store
    from calibrant.experiments.studies.dynamics.figures import draw_figure

    session.progress("reading runs", 0.0)
    wanted = len(load_grid(Path(__file__).with_name("grid.toml")).points)
    numbers = numbers_of(list(Store(out, create=False).results(task="training")), wanted=wanted)
    if not numbers["ways"]:
        raise InputError(f"{out} holds no finished run of grids/dynamics.toml; sweep it first.")
    return PAGE.write(numbers, table or out, [draw_figure(numbers)])


DYNAMICS = Study(
    name="dynamics",
    summary="Likelihood, entropy and weights by epoch, from a store of grids/dynamics.toml.",
    run=_run,
    options=(OUT, PAGES),
    pages=(PAGE,),
)
