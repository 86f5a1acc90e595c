"""What the records of the generalisation-gap study say, cell by cell."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from calibrant.experiments.means import mean_of, rounded, summary
from calibrant.experiments.records import Record
from calibrant.experiments.studies.generalisation_gap.settings import (
    BY_CAPACITY,
    BY_SAMPLES,
    GAMMAS,
    SIGNAL,
    Cell,
)

Arm: TypeAlias = Mapping[str, Any]

PICKS: Mapping[str, Callable[[Arm], float]] = {
    "train_overconfidence": lambda arm: arm["train"]["overconfidence"],
    "train_temperature": lambda arm: arm["train"]["temperature"],
    "train_temperature_less_1": lambda arm: arm["train"]["temperature"] - 1,
    "test_overconfidence": lambda arm: arm["test"]["overconfidence"],
    "test_calibration_error": lambda arm: arm["test"]["calibration_error"],
    "test_cross_entropy": lambda arm: arm["test"]["cross_entropy"],
    "test_temperature": lambda arm: arm["test"]["temperature"],
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
COMPOSED = (0, 1, 2, 4)
"""Places in :data:`BY_SAMPLES` of the cells whose temperatures are multiplied on the page."""


def numbers_of(
    records: Sequence[Record], world: Mapping[str, float], closest: Mapping[float, float]
) -> dict[str, Any]:
    """Mean and interval of every number of every cell and exponent, and the values that are compared.

    Args:
        records: The records of the study.
        world: The best ``accuracy`` and ``cross_entropy`` that a model can have.
        closest: For each exponent the temperature that is nearest to its focal map.
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


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    fits = [arm for cell in numbers["cells"] for arm in cell["arms"]]
    ends = heaviest_and_lightest(numbers)
    return {
        "gammas": GAMMAS,
        "parts": {
            "More samples": cells_among(numbers, BY_SAMPLES),
            "More capacity": cells_among(numbers, BY_CAPACITY),
        },
        "load": load_of,
        "lost": sum(arm["without_minimum"] for arm in fits),
        "fits": sum(len(arm["each"]["test_temperature"]) for arm in fits),
        "composition": _composition(numbers),
        "map_apart": max(
            abs(mapped - plain)
            for cell in numbers["cells"]
            for gamma in GAMMAS[1:]
            for mapped, plain in pairs(cell, "mapped_test_overconfidence", gamma, "test_overconfidence")
        ),
        "zeros": [
            (zero, load_of(cell))
            for cell in sorted(numbers["cells"], key=lambda each: -load_of(each))
            if (zero := _vanishing(cell)) is not None
        ],
        "ends": [load_of(cell) for cell in ends],
        "lowest": [_lowest_error(cell) for cell in ends],
        "equal_loads_apart": _equal_loads_apart(numbers),
    }


def _composition(numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Temperatures on the sample and in the world, and their product, for some cells and exponents."""
    rows: list[dict[str, Any]] = []
    for cell in cells_among(numbers, [BY_SAMPLES[place] for place in COMPOSED]):
        for gamma in (1.0, 3.0):
            if both := pairs(cell, "train_temperature", gamma, "test_temperature"):
                train, plain = zip(*both, strict=True)
                product = [one * other for one, other in both]
                test, mapped = (
                    [focal for focal, _ in pairs(cell, name, gamma, "test_temperature")]
                    for name in ("test_temperature", "mapped_test_temperature")
                )
                means = [mean_of(each) for each in (train, plain, product, test, mapped)]
                rows.append(
                    {
                        "gamma": gamma,
                        "cell": cell,
                        "closest": numbers["closest"][f"{gamma:g}"],
                        "means": means,
                    }
                )
    return rows


def ratios(cell: Mapping[str, Any], gamma: float) -> list[float]:
    """Training temperature times cross-entropy's test temperature, over focal loss's test temperature."""
    products = pairs(cell, "train_temperature", gamma, "test_temperature")
    tests = pairs(cell, "test_temperature", gamma, "test_temperature")
    return [train * plain / test for (train, plain), (test, _) in zip(products, tests, strict=True)]


def _vanishing(cell: Mapping[str, Any]) -> float | None:
    """The exponent where the mean over-confidence crosses zero, between two by a straight line."""
    means = [arm["test_overconfidence"] and arm["test_overconfidence"]["mean"] for arm in cell["arms"]]
    for (low, first), (high, second) in itertools.pairwise(zip(GAMMAS, means, strict=True)):
        if first is not None and second is not None and first > 0 >= second:
            return low + first / (first - second) * (high - low)
    return None


def _equal_loads_apart(numbers: Mapping[str, Any]) -> float | None:
    """How far cross-entropy's mean over-confidence is apart in cells of the same load, at most."""
    means = [
        (load_of(cell), found["mean"])
        for cell in numbers["cells"]
        if (found := arm_of(cell, 0.0)["test_overconfidence"]) is not None
    ]
    pairs = itertools.combinations(means, 2)
    return max((abs(one[1] - two[1]) for one, two in pairs if one[0] == two[0]), default=None)


def _lowest_error(cell: Mapping[str, Any]) -> float:
    """The exponent with the lowest mean calibration error on new samples."""
    means = {
        arm["gamma"]: arm["test_calibration_error"]["mean"]
        for arm in cell["arms"]
        if arm["test_calibration_error"] is not None
    }
    return min(means, key=lambda gamma: means[gamma])
