"""The losses on Fashion-MNIST, as it is and long-tailed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.experiments.published import FOLDER as PUBLISHED_TABLES
from calibrant.experiments.studies.losses import settings
from calibrant.experiments.studies.losses.claims import claims
from calibrant.experiments.studies.losses.numbers import numbers_of, swapped
from calibrant.experiments.studies.losses.published import quotes
from calibrant.experiments.studies.losses.words import words
from calibrant.experiments.study import OUT, PUBLISHED, SEEDS, SETTING, TABLE, Page, Session, Study


def page_of(setting: settings.Setting) -> Page:
    """The page of one setting."""
    return Page(
        name=setting.key,
        template=Path(__file__).with_name("page.md.j2"),
        words=words,
        claims=claims,
        exchanged=swapped,
        figures=(f"{setting.key}-ece.svg", f"{setting.key}-weight-norms.svg"),
    )


def write_results(
    store: Path,
    folder: Path,
    *,
    wanted: Sequence[settings.Setting],
    seeds: Sequence[int],
    published: Path | None,
) -> list[Path]:
    """Write the page of each setting that has finished runs in a store.

    Args:
        store: The folder of the runs.
        folder: Where to write; made if need be.
        wanted: The settings; one without finished runs is left out.
        seeds: The seeds that count.
        published: A folder of published tables to quote, if not those of the package.

    Returns:
        The files written.

    Raises:
        InputError: If no run is finished.
    """
    from calibrant.experiments.studies.losses.figures import draw_figures
    from calibrant.experiments.studies.losses.measure import base_recipe, collect, training_counts

    written: list[Path] = []
    for setting in wanted:
        found = collect(store, setting, seeds)
        if not found:
            continue
        known = [arm for arm in setting.arms if arm.key in found]
        numbers = numbers_of(
            setting,
            found,
            recipe=base_recipe(setting).model_dump(mode="json"),
            counts=training_counts(setting),
            wanted=len(seeds),
            published=quotes(published or PUBLISHED_TABLES, known),
        )
        written += page_of(setting).write(numbers, folder, draw_figures(numbers))
    if not written:
        raise InputError(f"{store} holds no finished run of this study; train some first.")
    return written


def _run(
    session: Session,
    *,
    out: Path,
    setting: Sequence[str] | None,
    seeds: int,
    table: Path | None,
    published: Path | None,
) -> Sequence[Path | str]:
    wanted = [settings.setting_named(key) for key in setting] if setting else list(settings.SETTINGS)
    if table is not None:
        return write_results(out, table, wanted=wanted, seeds=range(seeds), published=published)
    from calibrant.experiments.studies.losses.measure import run_loss_study

    done = run_loss_study(
        out, settings=wanted, seeds=range(seeds), command=session.command, tell=session.tell
    )
    return [f"{len(done)} runs are finished; --table FOLDER writes what they show."]


LOSSES = Study(
    name="losses",
    summary="The losses on Fashion-MNIST, as it is and long-tailed: some twenty arms, three seeds each.",
    run=_run,
    options=(OUT, SETTING, SEEDS, TABLE, PUBLISHED),
    pages=tuple(page_of(setting) for setting in settings.SETTINGS),
)
