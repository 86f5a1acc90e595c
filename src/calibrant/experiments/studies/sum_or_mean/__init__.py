"""The loss summed over the batch with clipped gradients, against the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant.experiments.studies.sum_or_mean.claims import claims
from calibrant.experiments.studies.sum_or_mean.numbers import numbers_of, swapped
from calibrant.experiments.studies.sum_or_mean.settings import WAYS
from calibrant.experiments.studies.sum_or_mean.words import words
from calibrant.experiments.study import OUT, PAGES, Page, Session, Study

PAGE = Page(
    name="sum-or-mean",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    departs="A small network on 10,000 images of Fashion-MNIST where the papers have ResNets on CIFAR-10.",
)


def _run(session: Session, *, out: Path, table: Path | None) -> Sequence[Path]:
    from calibrant.experiments.grid import load_grid
    from calibrant.experiments.matching import matches
    from calibrant.experiments.store.store import Store
    from calibrant.experiments.studies.losses.measure import runs_of_setting

    session.progress("reading runs", 0.0)
    results = [each for each in Store(out, create=False).results(task="training") if "classes" in each.more]
    found: dict[str, Mapping[str, Mapping[int, Mapping[str, Any]]]] = {
        way.key: runs_of_setting([each for each in results if matches(each.settings, way.where)], way.losses)
        for way in WAYS
    }
    if not any(found.values()):
        raise InputError(f"{out} holds no finished run of grids/sum-or-mean.toml; sweep it first.")
    mine = [each for each in results if any(matches(each.settings, way.where) for way in WAYS)]
    wanted = len(load_grid(Path(__file__).with_name("grid.toml")).points)
    numbers = numbers_of(found, wanted=wanted, seconds=sum(each.cpu_seconds for each in mine))
    return PAGE.write(numbers, table or out)


SUM_OR_MEAN = Study(
    name="sum-or-mean",
    summary="The loss summed and clipped against the mean, from a store of grids/sum-or-mean.toml.",
    run=_run,
    options=(OUT, PAGES),
    pages=(PAGE,),
)
