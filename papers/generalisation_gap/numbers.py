"""What the records of the generalisation-gap study say, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from calibrant._math.means import summary
from papers.generalisation_gap.settings import (
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


def by_quantity(arms: Sequence[Arm]) -> dict[str, list[float | None]]:
    """Each quantity of the arms of a run, in their order; None where an arm does not count."""
    return {name: [pick(arm) if _counts(arm) else None for arm in arms] for name, pick in PICKS.items()}


def _counts(arm: Arm) -> bool:
    """Whether there is a minimum, and weights that point the right way."""
    return arm["converged"] and arm["test"]["temperature"] is not None


def numbers_of(runs: Sequence[Mapping[str, Any]], theory: Mapping[str, Any]) -> dict[str, Any]:
    """Mean and interval of every quantity of every cell and exponent, and its values, seed by seed.

    ``theory`` holds of the ``world`` the best accuracy and cross-entropy that a model can have, for each
    exponent the ``closest`` temperature to its focal map, and the ``limit`` for infinitely many samples and
    features.
    """
    cells = {_cell(run): [each for each in runs if _cell(each) == _cell(run)] for run in runs}
    return {
        "signal": SIGNAL,
        "seeds": sorted({run["seed"] for run in runs}),
        "cells": [
            {**vars(cell), "arms": [_arm(own, place) for place in range(len(GAMMAS))]}
            for cell, own in cells.items()
        ],
        **theory,
    }


def _cell(found: Mapping[str, Any]) -> Cell:
    return Cell(num_samples=found["num_samples"], num_features=found["num_features"])


def _arm(runs: Sequence[Mapping[str, Any]], place: int) -> dict[str, Any]:
    each = {name: [run[name][place] for run in runs] for name in PICKS}
    known = {name: [value for value in values if value is not None] for name, values in each.items()}
    return {
        "gamma": GAMMAS[place],
        "without_minimum": len(runs) - len(known["norm"]),
        **{name: summary(values) if values else None for name, values in known.items()},
        "each": each,
    }


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
