"""Exponents from 0 to 7, temperature and focal temperature scaling, and training against new images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.experiments.claims import arms_exchanged
from calibrant.experiments.grid_study import grid_study
from calibrant.experiments.means import rounded
from calibrant.experiments.studies.gammas.claims import claims
from calibrant.experiments.studies.gammas.numbers import numbers_of
from calibrant.experiments.studies.gammas.settings import CLASSES, FOCAL
from calibrant.experiments.studies.gammas.words import words
from calibrant.experiments.studies.losses.numbers import DIGITS
from calibrant.experiments.study import Page, Runs

if TYPE_CHECKING:
    from calibrant.experiments.result import RunResult


def _kept(result: RunResult) -> Mapping[str, Any]:
    from calibrant.experiments.studies.gammas.measure import kept_of

    return kept_of(result)


def _closest(_runs: Runs, _known: Mapping[str, Any]) -> dict[str, Any]:
    """The temperature closest to the focal map of each exponent."""
    from calibrant.theory import closest_temperature

    found = {str(gamma): closest_temperature(gamma, CLASSES).temperature for gamma in FOCAL.values()}
    return {"closest": {gamma: rounded(value, DIGITS) for gamma, value in found.items()}}


PAGE = Page(
    name="gammas",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=arms_exchanged,
    departs="A small network on Fashion-MNIST; the paper has ResNet-50 on CIFAR and Tiny-ImageNet.",
    kept=_kept,
    numbers=numbers_of,
    digits=DIGITS,
    counts=True,
    also=_closest,
)


GAMMAS = grid_study(
    PAGE, summary="Exponents from 0 to 7, scaling on the paper's grids, training against new images."
)
