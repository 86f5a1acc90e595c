"""What the page of the generalisation-gap study needs beyond its numbers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from calibrant._math.means import mean_of
from papers.generalisation_gap.limit import words_of_limit
from papers.generalisation_gap.numbers import (
    arm_of,
    cells_among,
    heaviest_and_lightest,
    load_of,
    pairs,
)
from papers.generalisation_gap.settings import (
    BY_CAPACITY,
    BY_SAMPLES,
    COMPOSED,
    GAMMAS,
)


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
            (zero, cell)
            for cell in sorted(numbers["cells"], key=lambda each: -load_of(each))
            if (zero := _vanishing(cell)) is not None
        ],
        "ends": [load_of(cell) for cell in ends],
        "lowest": [_lowest_error(cell) for cell in ends],
        "equal_loads_apart": _equal_loads_apart(numbers),
        **words_of_limit(numbers),
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
