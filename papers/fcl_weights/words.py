"""The tables of the page on focal calibration loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from calibrant._math.means import Mean, plus_minus
from calibrant_lab.figures.fcl_boundaries.settings import LEARNING_RATE, NUM_POINTS
from papers.arms import ArmRuns, difference
from papers.fcl_weights.claims import (
    EARLY,
    EPOCHS,
    LENGTH,
    claims,
    metric,
    post_gap,
)
from papers.fcl_weights.numbers import arms_of, boundaries_of
from papers.fcl_weights.settings import (
    BOUNDARY_SEEDS,
    CLASSES,
    GAMMAS,
    L1,
    LOSSES,
    NEAR,
    PAPERS,
    PAPERS_GAMMA,
    QUESTIONS,
    TITLES,
    WEIGHTS,
    key_of,
)
from papers.losses.settings import DROP
from papers.pages import listed, table
from papers.paired import (
    FEWEST_SEEDS,
    Quantity,
    arms_table,
    usual_words,
)

TEMPERATURE = Quantity(pick=lambda run: run["temperature"], digits=2)
GRIDS: Mapping[str, Quantity] = {
    "ECE, before temperature scaling (%)": metric("before", "ece"),
    "ECE, after temperature scaling (%)": metric("after", "ece"),
    "Temperature": TEMPERATURE,
}
CHANGED: Mapping[str, Quantity] = {
    "ECE before, points": metric("before", "ece"),
    "ECE after, points": metric("after", "ece"),
    "NLL before": metric("before", "nll"),
    "error, points": metric("before", "error"),
    "T": TEMPERATURE,
}
"""What the paper's weight is held against none by."""
COLUMNS: Mapping[str, Quantity] = {
    "error %": metric("before", "error"),
    "ECE %": metric("before", "ece"),
    "AdaECE %": metric("before", "adaptive_ece"),
    "class-wise %": metric("before", "classwise_ece"),
    "NLL": metric("before", "nll"),
    "T": TEMPERATURE,
    "ECE % after T": metric("after", "ece"),
    "NLL after T": metric("after", "nll"),
    "epochs": EPOCHS,
    "NLL, early": EARLY,
}
OF_BOUNDARIES: Mapping[str, Quantity] = {
    "length": LENGTH,
    "turning": Quantity(pick=lambda run: run["turning"], digits=2),
    "confidence %": Quantity(pick=lambda run: run["confidence"], scale=100),
    "accuracy %": Quantity(pick=lambda run: run["accuracy"], scale=100),
}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    arms = arms_of(numbers)
    done = sum(len(arm.runs) for arm in arms.values())
    asked, boundaries = claims(numbers), boundaries_of(numbers)
    seeds = sorted({len(arm.runs) for arm in arms.values()})
    return {
        **usual_words(numbers, done, asked, QUESTIONS),
        "cells": listed(f"{n}" for n in seeds),
        "weight": PAPERS,
        "gamma": PAPERS_GAMMA,
        "classes": CLASSES,
        **_by_exponent(arms),
        "papers": _papers(arms.get(key_of(PAPERS_GAMMA, PAPERS))),
        "l1": TEMPERATURE.cell(arms.get(key_of(PAPERS_GAMMA, PAPERS, L1))),
        "networks": sum(len(arm.runs) for arm in boundaries.values()),
        "grids": {title: _grid(arms, what) for title, what in GRIDS.items()},
        "every": arms_table([*COLUMNS], arms.values(), [*COLUMNS.values()]),
        "boundaries": arms_table([*OF_BOUNDARIES], boundaries.values(), [*OF_BOUNDARIES.values()]),
        "absent": [TITLES[key] for key in LOSSES if key not in arms],
        "fixed": _fixed(arms),
        "few": [arm.title for arm in arms.values() if len(arm.runs) < FEWEST_SEEDS],
        "near": f"{100 * (NEAR - 1):.0f} %",
        "pinned": sum(run["epochs"] == DROP + 1 for arm in arms.values() for run in arm.runs.values()),
        "drop": DROP,
        "points": NUM_POINTS,
        "rate": LEARNING_RATE,
        "seeds": BOUNDARY_SEEDS,
    }


def _by_exponent(arms: Mapping[str, ArmRuns]) -> dict[str, Any]:
    """By exponent, what the paper's weight changes against none; and with which exponents it does what."""
    found = {gamma: [arms.get(key_of(gamma, weight)) for weight in (PAPERS, 0.0)] for gamma in GAMMAS}
    pairs = {gamma: (papers, none) for gamma, (papers, none) in found.items() if papers and none}
    changes = {
        title: {g: gap for g, arms in pairs.items() if (gap := difference(*arms, what.pick))}
        for title, what in CHANGED.items()
    }
    alone = {gamma: none.mean(lambda run: run["temperature"] - 1) for gamma, (_, none) in pairs.items()}
    rows = [
        [f"γ = {gamma}", str(gap.n), TEMPERATURE.cell(pairs[gamma][1])]
        + [
            plus_minus(changes[title][gamma], what.digits, what.scale, signed=True)
            for title, what in CHANGED.items()
        ]
        for gamma, gap in changes["T"].items()
    ]
    return {
        "by_exponent": table(["", "n", "T, λ = 0", *CHANGED], rows) if rows else "",
        "under": _below(alone),
        "over": _above(alone),
        "surer": _above(changes["T"]),
        "lowers": _below(changes["ECE before, points"]),
        "raises": _above(changes["ECE before, points"]),
    }


def _below(found: Mapping[int, Mean]) -> str:
    return _exponents(gamma for gamma, mean in found.items() if mean.high < 0)


def _above(found: Mapping[int, Mean]) -> str:
    return _exponents(gamma for gamma, mean in found.items() if mean.low > 0)


def _exponents(gammas: Iterable[int]) -> str:
    told = listed(map(str, gammas))
    return f"γ = {told}" if told else "no exponent"


def _papers(arm: ArmRuns | None) -> dict[str, Any]:
    """With how many seeds the temperature of the paper's weight is 1.0, and the gain with the others."""
    runs = [*arm.runs.values()] if arm else []
    gained = [f"{100 * post_gap('ece').pick(run):.2f}" for run in runs if run["temperature"] != 1]
    return {"n": len(runs), "at_one": len(runs) - len(gained), "others": listed(gained)}


def _fixed(arms: Mapping[str, ArmRuns]) -> list[str]:
    """Losses of which every run has the same temperature of the grid, with it."""
    found = {
        arm.title: {run["temperature"] for run in arm.runs.values()}
        for arm in arms.values()
        if len(arm.runs) >= FEWEST_SEEDS
    }
    return [f"{title}: {min(known):.1f}" for title, known in found.items() if len(known) == 1]


def _grid(arms: Mapping[str, ArmRuns], what: Quantity) -> str:
    rows = [
        [f"γ = {gamma}", *(what.cell(arms.get(key_of(gamma, weight))) for weight in WEIGHTS)]
        for gamma in GAMMAS
        if any(key_of(gamma, weight) in arms for weight in WEIGHTS)
    ]
    return table(["", *(f"λ = {weight:g}" for weight in WEIGHTS)], rows)
