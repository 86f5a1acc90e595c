"""The weights of focal calibration loss by exponents, its distances, and the boundaries that it learns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.experiments.studies.fcl_weights.claims import claims
from calibrant.experiments.studies.fcl_weights.numbers import numbers_of, swapped
from calibrant.experiments.studies.fcl_weights.settings import BOUNDARIES, BOUNDARY_SEEDS
from calibrant.experiments.studies.fcl_weights.words import words
from calibrant.experiments.study import OUT, PAGES, Page, Session, Study

PAGE = Page(
    name="fcl-weights",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    departs="A small network on Fashion-MNIST, and half-moons; the paper has ResNets on CIFAR.",
)


def _run(session: Session, *, out: Path, table: Path | None) -> Sequence[Path]:
    from calibrant.experiments.grid import load_grid
    from calibrant.experiments.store.store import Store
    from calibrant.experiments.studies.fcl_boundaries.measure import boundary_numbers

    session.progress("reading runs", 0.0)
    results = list(Store(out, create=False).results(task="training"))
    boundaries = {
        key: [boundary_numbers(gamma, weight, seed=seed) for seed in range(BOUNDARY_SEEDS)]
        for key, (gamma, weight) in BOUNDARIES.items()
    }
    wanted = len(load_grid(Path(__file__).with_name("grid.toml")).points)
    numbers = numbers_of(results, boundaries, wanted=wanted)
    if not numbers["arms"]:
        raise InputError(f"{out} holds no finished run of grids/fcl-weights.toml; sweep it first.")
    return PAGE.write(numbers, table or out)


FCL_WEIGHTS = Study(
    name="fcl-weights",
    summary="Focal calibration loss by exponent and weight, from a store; boundaries over ten seeds.",
    run=_run,
    options=(OUT, PAGES),
    pages=(PAGE,),
)
