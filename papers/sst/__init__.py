"""The SST row of the papers: a Tree-LSTM with all losses, published numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from papers.grid_study import grid_study
from papers.losses.numbers import DIGITS
from papers.sst.claims import claims
from papers.sst.numbers import numbers_of, swapped
from papers.sst.words import words
from papers.study import Page, Runs

if TYPE_CHECKING:
    from calibrant_lab.sweep.result import RunResult


def _kept(result: RunResult) -> Mapping[str, Any]:
    from papers.sst.measure import kept_of

    return kept_of(result)


def _theory(_runs: Runs, _known: Mapping[str, Any]) -> dict[str, Any]:
    from papers.sst.measure import predictions_of_theory

    return {"theory": predictions_of_theory()}


PAGE = Page(
    name="sst",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    departs="Word vectors of 100 dimensions, where those of Mukhoti et al. have 300 and are trained on more "
    "text; exponents of "
    "FLSD that change at 0.2 instead of 0.19. The other papers have no SST.",
    kept=_kept,
    numbers=numbers_of,
    digits=DIGITS,
    counts=True,
    also=_theory,
)


SST = grid_study(PAGE, summary="Reproduce the SST results: a Tree-LSTM with all losses.")
