"""The weights of focal calibration loss by exponents, its distances, and the boundaries that it learns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrant_lab.sweep.kept_runs import shortened
from papers.claims import arms_exchanged
from papers.fcl_weights.claims import claims
from papers.fcl_weights.numbers import kept_of, numbers_of
from papers.fcl_weights.settings import BOUNDARIES, BOUNDARY_SEEDS
from papers.fcl_weights.words import words
from papers.grid_study import grid_study
from papers.losses.numbers import DIGITS
from papers.study import Page, Runs


def _boundaries(_runs: Runs, known: Mapping[str, Any]) -> dict[str, Any]:
    """What small networks on two half-moons learn, by loss and seed."""
    if "boundaries" in known:
        return {"boundaries": known["boundaries"]}
    from calibrant_lab.figures.fcl_boundaries.measure import boundary_numbers

    found = [
        {"arm": key, "runs": [boundary_numbers(*of, seed=seed) for seed in range(BOUNDARY_SEEDS)]}
        for key, of in BOUNDARIES.items()
    ]
    return {"boundaries": shortened(found, DIGITS)}


PAGE = Page(
    name="fcl-weights",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=arms_exchanged,
    departs="A small network on Fashion-MNIST, and half-moons; the paper has ResNets on CIFAR.",
    kept=kept_of,
    numbers=numbers_of,
    digits=DIGITS,
    counts=True,
    also=_boundaries,
)


FCL_WEIGHTS = grid_study(PAGE, summary="Vary the exponent and weight of focal calibration loss.")
