"""A study that is a grid and a page: what its folder does not have to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.study import ADDED, SEEDS_OF_GRID, STORE, Page, Session, Study


def grid_study(page: Page, *, summary: str, small: Callable[[], object] | None = None) -> Study:
    """The study of ``grid.toml`` in the folder of the page's template.

    Args:
        page: The page, whose name is the study's.
        summary: One line for the list of studies.
        small: As a study has it: entries that take the place of the grid's.
    """
    grid = page.template.with_name("grid.toml")

    def run(
        session: Session,
        changes: Mapping[str, Any] | None = None,
        *,
        out: Path | None,
        seeds: int | None,
        table: Path | None,
    ) -> Sequence[Path]:
        from papers.study_runs import grid_of, make_pages

        return make_pages(session, grid_of(grid, seeds=seeds, changes=changes), [page], out=out, table=table)

    return Study(
        name=page.name,
        summary=summary,
        run=run,
        options=(STORE, SEEDS_OF_GRID, ADDED),
        pages=(page,),
        grid=grid,
        small=small,
    )
