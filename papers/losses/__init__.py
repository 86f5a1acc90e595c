"""The losses on Fashion-MNIST, as it is and long-tailed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant_lab.sweep.published import FOLDER as PUBLISHED_TABLES
from papers.losses import settings
from papers.losses.claims import claims
from papers.losses.numbers import DIGITS, numbers_of, shown, swapped
from papers.losses.published import quotes
from papers.losses.words import words
from papers.study import (
    ADDED,
    PUBLISHED,
    SEEDS_OF_GRID,
    SETTING,
    STORE,
    Page,
    Runs,
    Session,
    Study,
)

GRID = Path(__file__).with_name("grid.toml")


def page_of(setting: settings.Setting, published: Path = PUBLISHED_TABLES) -> Page:
    """The page of one setting, beside what published tables say."""

    def numbers(runs: Runs, also: Mapping[str, Any]) -> dict[str, Any]:
        found = numbers_of(setting, runs, also)
        known = {each["arm"] for each in found["arms"]}
        return {**found, "published": quotes(published, [arm for arm in setting.arms if arm.key in known])}

    return Page(
        name=setting.key,
        template=Path(__file__).with_name("page.md.j2"),
        words=words,
        claims=claims,
        exchanged=swapped,
        departs="A small network on 10,000 images of Fashion-MNIST; the papers have ResNets on CIFAR-10.",
        figures=(f"{setting.key}-ece.svg", f"{setting.key}-weight-norms.svg"),
        where=setting.where,
        kept=shown,
        digits=DIGITS,
        numbers=numbers,
        also=_counts,
    )


def _counts(runs: Runs, known: Mapping[str, Any]) -> Mapping[str, Any]:
    from papers.losses.measure import training_counts

    return known or {"training_counts": training_counts(runs[0])}


def _run(
    session: Session,
    changes: Mapping[str, Any] | None = None,
    *,
    out: Path | None,
    setting: Sequence[str] | None,
    seeds: int | None,
    table: Path | None,
    published: Path | None,
) -> Sequence[Path]:
    from papers.study_runs import grid_of, make_pages

    wanted = [settings.setting_named(key) for key in setting] if setting else list(settings.SETTINGS)
    grid = grid_of(GRID, seeds=seeds, changes=changes)
    if setting:
        grid = grid.only({"data.imbalance": [each.imbalance for each in wanted]})
    pages = [page_of(each, published or PUBLISHED_TABLES) for each in wanted]
    return make_pages(session, grid, pages, out=out, table=table)


LOSSES = Study(
    name="losses",
    summary="Compare all losses on Fashion-MNIST, balanced and long-tailed.",
    run=_run,
    options=(STORE, SETTING, SEEDS_OF_GRID, ADDED, PUBLISHED),
    pages=tuple(page_of(setting) for setting in settings.SETTINGS),
    grid=GRID,
)
