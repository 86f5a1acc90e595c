"""The tables of the page on focal calibration loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.experiments.arms import ArmRuns
from calibrant.experiments.pages import table
from calibrant.experiments.paired import (
    FEWEST_SEEDS,
    Quantity,
    arms_table,
    usual_words,
)
from calibrant.experiments.studies.fcl_boundaries.settings import LEARNING_RATE, NUM_POINTS
from calibrant.experiments.studies.fcl_weights.claims import EARLY, EPOCHS, LENGTH, claims, metric
from calibrant.experiments.studies.fcl_weights.numbers import arms_of, boundaries_of
from calibrant.experiments.studies.fcl_weights.settings import (
    BOUNDARY_SEEDS,
    GAMMAS,
    LOSSES,
    NEAR,
    QUESTIONS,
    TITLES,
    WEIGHTS,
    key_of,
)
from calibrant.experiments.studies.losses.settings import DROP

TEMPERATURE = Quantity(pick=lambda run: run["temperature"], digits=2)
GRIDS: Mapping[str, Quantity] = {
    "ECE, before temperature scaling (%)": metric("before", "ece"),
    "ECE, after temperature scaling (%)": metric("after", "ece"),
    "NLL, before temperature scaling": metric("before", "nll"),
    "Temperature": TEMPERATURE,
    "Error (%)": metric("before", "error"),
    "Epochs until near the least held-out NLL": EPOCHS,
}
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
    return {
        **usual_words(numbers, done, claims(numbers), QUESTIONS),
        "grids": {title: _grid(arms, what) for title, what in GRIDS.items()},
        "every": arms_table([*COLUMNS], arms.values(), [*COLUMNS.values()]),
        "boundaries": arms_table(
            [*OF_BOUNDARIES], boundaries_of(numbers).values(), [*OF_BOUNDARIES.values()]
        ),
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
