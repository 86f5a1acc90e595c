"""Networks on chest X-rays: three losses on three classes, and fourteen labels beside published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from papers.chest_x_rays.words import numbers_of, words
from papers.grid_study import grid_study
from papers.study import Page, Runs

if TYPE_CHECKING:
    from calibrant_lab.sweep.result import RunResult


def _kept(result: RunResult) -> Mapping[str, Any]:
    from papers.chest_x_rays.measure import kept_of

    return kept_of(result)


def _also(_: Runs, known: Mapping[str, Any]) -> Mapping[str, Any]:
    from papers.chest_x_rays.measure import fourteen_labels

    return known or fourteen_labels()


PAGE = Page(
    name="chest-x-rays",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    kept=_kept,
    also=_also,
    numbers=numbers_of,
)


CHEST_X_RAYS = grid_study(
    PAGE,
    summary="Train DenseNets on chest X-rays with three losses; calibrate 14 labels.",
)
