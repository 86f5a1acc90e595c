"""Exponents from 0 to 7, temperature and focal temperature scaling, and training against new images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.experiments.studies.gammas.claims import claims
from calibrant.experiments.studies.gammas.numbers import numbers_of, swapped
from calibrant.experiments.studies.gammas.settings import CLASSES, FOCAL
from calibrant.experiments.studies.gammas.words import words
from calibrant.experiments.study import OUT, PAGES, Page, Session, Study

PAGE = Page(
    name="gammas",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    departs="A small network on Fashion-MNIST; the paper has ResNet-50 on CIFAR and Tiny-ImageNet.",
)


def _run(session: Session, *, out: Path, table: Path | None) -> Sequence[Path]:
    from calibrant import theory
    from calibrant.experiments.grid import load_grid
    from calibrant.experiments.store.store import Store
    from calibrant.experiments.studies.gammas.measure import fits_of

    session.progress("reading runs", 0.0)
    results = list(Store(out, create=False).results(task="training"))
    closest = {str(gamma): theory.closest_temperature(gamma, CLASSES).temperature for gamma in FOCAL.values()}
    wanted = len(load_grid(Path(__file__).with_name("grid.toml")).points)
    numbers = numbers_of(results, fits_of, closest=closest, wanted=wanted)
    if not numbers["rows"]:
        raise InputError(f"{out} holds no finished run of grids/gammas.toml; sweep it first.")
    return PAGE.write(numbers, table or out)


GAMMAS = Study(
    name="gammas",
    summary="Exponents from 0 to 7, scaling on the paper's grids, training against new images, from a store.",
    run=_run,
    options=(OUT, PAGES),
    pages=(PAGE,),
)
