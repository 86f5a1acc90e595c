"""The loss summed over the batch with clipped gradients, against the mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.experiments.matching import matches
from calibrant.experiments.studies.losses.numbers import runs_by_arm, shown
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
    from calibrant.experiments.store.store import Store

    session.progress("reading runs", 0.0)
    results = [each for each in Store(out, create=False).results(task="training") if "classes" in each.more]
    runs = [{**each.settings, **shown(each), "cpu_seconds": each.cpu_seconds} for each in results]
    mine = [run for run in runs if any(matches(run, way.where) for way in WAYS)]
    found = {
        way.key: runs_by_arm([run for run in mine if matches(run, way.where)], way.losses) for way in WAYS
    }
    if not any(found.values()):
        raise InputError(f"{out} holds no finished run of grids/sum-or-mean.toml; sweep it first.")
    wanted = len(load_grid(Path(__file__).with_name("grid.toml")).points)
    numbers = numbers_of(found, wanted=wanted, seconds=sum(run["cpu_seconds"] for run in mine))
    return PAGE.write(numbers, table or out)


SUM_OR_MEAN = Study(
    name="sum-or-mean",
    summary="The loss summed and clipped against the mean, from a store of grids/sum-or-mean.toml.",
    run=_run,
    options=(OUT, PAGES),
    pages=(PAGE,),
)
