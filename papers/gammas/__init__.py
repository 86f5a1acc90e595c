"""Exponents from 0 to 7, temperature and focal temperature scaling, and training against new images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from papers.claims import arms_exchanged
from papers.gammas.claims import claims
from papers.gammas.numbers import closest, numbers_of
from papers.gammas.words import words
from papers.grid_study import grid_study
from papers.losses.numbers import DIGITS
from papers.study import Page

if TYPE_CHECKING:
    from calibrant_lab.sweep.result import RunResult


def _kept(result: RunResult) -> Mapping[str, Any]:
    from papers.gammas.measure import kept_of

    return kept_of(result)


PAGE = Page(
    name="gammas",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=arms_exchanged,
    departs="A small network on Fashion-MNIST; the papers have ResNets on CIFAR and others.",
    kept=_kept,
    numbers=numbers_of,
    digits=DIGITS,
    counts=True,
    also=closest,
)


GAMMAS = grid_study(PAGE, summary="Vary focal exponents from 0 to 7, with the papers' scaling grids.")
