"""What the records of the generalisation-gap study say, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from calibrant.experiments.means import rounded, summary
from calibrant.experiments.studies.generalisation_gap.settings import (
    GAMMAS,
    SIGNAL,
    Cell,
)

Arm: TypeAlias = Mapping[str, Any]

PICKS: Mapping[str, Callable[[Arm], float]] = {
    "alignment": lambda arm: arm["along"] / arm["norm"],
    "norm": lambda arm: arm["norm"],
    "train_overconfidence": lambda arm: arm["train"]["overconfidence"],
    "train_temperature": lambda arm: arm["train"]["temperature"],
    "train_temperature_less_1": lambda arm: arm["train"]["temperature"] - 1,
    "test_overconfidence": lambda arm: arm["test"]["overconfidence"],
    "test_calibration_error": lambda arm: arm["test"]["calibration_error"],
    "test_cross_entropy": lambda arm: arm["test"]["cross_entropy"],
    "test_temperature": lambda arm: arm["test"]["temperature"],
    "scaled_cross_entropy": lambda arm: arm["test_scaled"]["cross_entropy"],
    "mapped_train_overconfidence": lambda arm: arm["train_mapped"]["overconfidence"],
    "mapped_test_overconfidence": lambda arm: arm["test_mapped"]["overconfidence"],
    "mapped_test_temperature": lambda arm: arm["test_mapped"]["temperature"],
    "mapped_calibration_error": lambda arm: arm["test_mapped"]["calibration_error"],
}
BY_SEED = (
    "train_temperature",
    "test_temperature",
    "test_overconfidence",
    "test_calibration_error",
    "mapped_test_temperature",
    "mapped_test_overconfidence",
)
"""What is kept seed by seed, because arms or cells are compared by it."""


def numbers_of(
    records: Sequence[Mapping[str, Any]],
    world: Mapping[str, float],
    closest: Mapping[float, float],
    limit: Mapping[str, Any],
) -> dict[str, Any]:
    """Mean and interval of every number of every cell and exponent, and the values that are compared.

    Args:
        records: The records of the study.
        world: The best ``accuracy`` and ``cross_entropy`` that a model can have.
        closest: For each exponent the temperature that is nearest to its focal map.
        limit: What the theory says for infinitely many samples and features, by load and exponent.
    """
    return {
        "signal": SIGNAL,
        "world": {name: rounded(value) for name, value in world.items()},
        "closest": {f"{gamma:g}": rounded(value) for gamma, value in closest.items()},
        "seeds": sorted({record["seed"] for record in records}),
        "cells": [
            {
                "num_samples": cell.num_samples,
                "num_features": cell.num_features,
                "arms": [
                    _arm([run["arms"][place] for run in runs], gamma) for place, gamma in enumerate(GAMMAS)
                ],
            }
            for cell in dict.fromkeys(_cell(record) for record in records)
            for runs in [[each for each in records if _cell(each) == cell]]
        ],
        "limit": limit,
    }


def _cell(record: Mapping[str, Any]) -> Cell:
    return Cell(num_samples=record["num_samples"], num_features=record["num_features"])


def _arm(fits: Sequence[Arm], gamma: float) -> dict[str, Any]:
    counted = [arm for arm in fits if _counts(arm)]
    return {
        "gamma": gamma,
        "without_minimum": len(fits) - len(counted),
        **{
            name: summary([pick(arm) for arm in counted]) if counted else None for name, pick in PICKS.items()
        },
        "each": {
            name: [rounded(PICKS[name](arm)) if _counts(arm) else None for arm in fits] for name in BY_SEED
        },
    }


def _counts(arm: Arm) -> bool:
    """Whether there is a minimum, and weights that point the right way."""
    return arm["converged"] and arm["test"]["temperature"] is not None


def load_of(cell: Mapping[str, Any]) -> float:
    """Features per sample."""
    return cell["num_features"] / cell["num_samples"]


def heaviest_and_lightest(numbers: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The cells with the most and the fewest features per sample, of those where every loss has a minimum."""
    whole = [cell for cell in numbers["cells"] if all(arm["test_temperature"] for arm in cell["arms"])]
    return max(whole, key=load_of), min(whole, key=load_of)


def arm_of(cell: Mapping[str, Any], gamma: float) -> Arm:
    """The results of one exponent in a cell."""
    return next(arm for arm in cell["arms"] if arm["gamma"] == gamma)


def pairs(cell: Mapping[str, Any], name: str, gamma: float, other: str) -> list[tuple[float, float]]:
    """A number of an exponent beside one of cross-entropy, on the samples where both have a minimum."""
    both = zip(arm_of(cell, gamma)["each"][name], arm_of(cell, 0.0)["each"][other], strict=True)
    return [(one, two) for one, two in both if one is not None and two is not None]


def cells_among(numbers: Mapping[str, Any], wanted: Sequence[Cell]) -> list[Mapping[str, Any]]:
    """Those of the wanted cells that were measured."""
    found = {_cell(cell): cell for cell in numbers["cells"]}
    return [found[cell] for cell in wanted if cell in found]


def ratios(cell: Mapping[str, Any], gamma: float) -> list[float]:
    """Training temperature times cross-entropy's test temperature, over focal loss's test temperature."""
    products = pairs(cell, "train_temperature", gamma, "test_temperature")
    tests = pairs(cell, "test_temperature", gamma, "test_temperature")
    return [train * plain / test for (train, plain), (test, _) in zip(products, tests, strict=True)]
