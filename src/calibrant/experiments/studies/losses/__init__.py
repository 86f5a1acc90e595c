"""The losses on Fashion-MNIST, as it is and long-tailed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant._math.errors import InputError
from calibrant.experiments.published import FOLDER as PUBLISHED_TABLES
from calibrant.experiments.studies.losses import settings
from calibrant.experiments.studies.losses.claims import claims
from calibrant.experiments.studies.losses.numbers import numbers_of, swapped
from calibrant.experiments.studies.losses.published import quotes
from calibrant.experiments.studies.losses.words import words
from calibrant.experiments.study import OUT, PUBLISHED, SEEDS, SETTING, TABLE, Page, Session, Study

if TYPE_CHECKING:
    from calibrant.experiments.grid import Grid
    from calibrant.experiments.result import RunResult

GRID = Path(__file__).with_name("grid.toml")


def page_of(setting: settings.Setting) -> Page:
    """The page of one setting."""
    return Page(
        name=setting.key,
        template=Path(__file__).with_name("page.md.j2"),
        words=words,
        claims=claims,
        exchanged=swapped,
        departs="A small network on 10,000 images of Fashion-MNIST; the papers have ResNets on CIFAR-10.",
        figures=(f"{setting.key}-ece.svg", f"{setting.key}-weight-norms.svg"),
    )


def _run(
    session: Session,
    changes: Mapping[str, Any] | None = None,
    *,
    out: Path,
    setting: Sequence[str] | None,
    seeds: int,
    table: Path | None,
    published: Path | None,
) -> Sequence[Path | str]:
    from calibrant.experiments.studies.losses.figures import draw_figures
    from calibrant.experiments.study_runs import carry_out, grid_of, kept_results

    wanted = [settings.setting_named(key) for key in setting] if setting else list(settings.SETTINGS)
    grid = grid_of(GRID, seeds=seeds, changes=changes)
    if setting:
        grid = grid.only({"data.imbalance": [each.imbalance for each in wanted]})
    if table is None:
        done = carry_out(grid, session, out)
        return [f"{done} runs are finished; --table FOLDER writes what they show."]
    results = kept_results(grid, out)
    if not results:
        raise InputError(f"{out} holds no finished run of this study; train some first.")
    written: list[Path | str] = []
    for one in wanted:
        numbers = _numbers(one, grid, results, seeds=seeds, tables=published or PUBLISHED_TABLES)
        if numbers:
            written += page_of(one).write(numbers, table, draw_figures(numbers))
    return written


def _numbers(
    setting: settings.Setting, grid: Grid, results: Sequence[RunResult], *, seeds: int, tables: Path
) -> dict[str, Any]:
    """The results file of a setting; empty where it has no finished runs."""
    from calibrant.experiments.studies.losses.measure import runs_of_setting, training_counts
    from calibrant.experiments.tasks.training import recipe_of

    found = runs_of_setting(results, setting)
    if not found:
        return {}
    recipe = recipe_of(grid.only(setting.where).points[0].settings)
    return numbers_of(
        setting,
        found,
        recipe=recipe.model_dump(mode="json", exclude_none=True),
        counts=training_counts(recipe),
        wanted=seeds,
        published=quotes(tables, [arm for arm in setting.arms if arm.key in found]),
    )


LOSSES = Study(
    name="losses",
    summary="The losses on Fashion-MNIST, as it is and long-tailed: some twenty arms, several seeds each.",
    run=_run,
    options=(OUT, SETTING, SEEDS, TABLE, PUBLISHED),
    pages=tuple(page_of(setting) for setting in settings.SETTINGS),
    grid=GRID,
)
