"""Cross-entropy's over-confidence on new samples and focal loss's compensation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.generalisation_gap.claims import claims, swapped
from papers.generalisation_gap.numbers import by_quantity, numbers_of
from papers.generalisation_gap.words import words
from papers.grid_study import grid_study
from papers.study import Page, Runs


def _theory(runs: Runs, known: Mapping[str, Any]) -> Mapping[str, Any]:
    from papers.generalisation_gap.measure import theory_of

    return theory_of(runs, known)


PAGE = Page(
    name="generalisation-gap",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("generalisation-gap.svg",),
    kept=lambda result: by_quantity(result.rows[0]["arms"]),
    numbers=numbers_of,
    also=_theory,
    departs="A linear model in a simulated world, where the paper has networks.",
)


GENERALISATION_GAP = grid_study(
    PAGE,
    summary="Relate overconfidence to sample size, capacity and exponent.",
    small=lambda: {"zip": [{"num_samples": [200], "num_features": [2]}]},
)
