"""The measured means beside what the theory says for infinitely many samples and features."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from calibrant._math.means import Mean, mean_of, read_mean, rounded, standard_errors
from papers.generalisation_gap.numbers import arm_of, cells_among, load_of
from papers.generalisation_gap.settings import BY_SIZE, GAMMAS

MANY = 1600
"""Samples from which on the limit is claimed to be near."""
SHOWN = (0.0, 1.0, 3.0)
"""Exponents of the table."""
COMPARED = ("test_temperature", "test_overconfidence", "alignment")
"""What the table compares."""


class Comparison(NamedTuple):
    """A mean over seeds beside its limit."""

    found: Mean
    limit: float
    errors: float | None  # how many standard errors the mean lies above the limit


def limit_of(numbers: Mapping[str, Any], cell: Mapping[str, Any], gamma: float) -> Mapping[str, Any] | None:
    """What the theory says for a cell; nothing where its samples can be separated."""
    place = _place(numbers, cell)
    arms = numbers["limit"]["arms"]
    return None if place is None else next(arm["each"][place] for arm in arms if arm["gamma"] == gamma)


def _place(numbers: Mapping[str, Any], cell: Mapping[str, Any]) -> int | None:
    loads, load = numbers["limit"]["loads"], rounded(load_of(cell))
    return loads.index(load) if load in loads else None


def comparisons(
    numbers: Mapping[str, Any], name: str
) -> Iterator[tuple[Mapping[str, Any], float, Comparison]]:
    """A number of every cell and exponent beside its limit."""
    for cell, gamma in itertools.product(numbers["cells"], GAMMAS):
        found, limit = arm_of(cell, gamma)[name], limit_of(numbers, cell, gamma)
        if found is not None and limit is not None:
            yield cell, gamma, _compared(read_mean(found), limit[name])


def _compared(found: Mean, limit: float) -> Comparison:
    if not found.half_width:
        return Comparison(found, limit, None)
    error = found.half_width / standard_errors(found.n)
    return Comparison(found, limit, (found.value - limit) / error)


def near_limit(numbers: Mapping[str, Any]) -> list[Mean]:
    """Mean ratios of the measured temperature to the limit's, where samples are many."""
    found: list[Mean] = []
    for cell, gamma in itertools.product(numbers["cells"], GAMMAS):
        limit = limit_of(numbers, cell, gamma)
        values = [each for each in arm_of(cell, gamma)["each"]["test_temperature"] if each is not None]
        if cell["num_samples"] >= MANY and limit is not None and values:
            found.append(mean_of([value / limit["test_temperature"] for value in values]))
    return found


def crossing(temperatures: Sequence[float]) -> float:
    """The exponent at which the temperature is 1: log T is all but straight in log(1 + γ).

    Beyond the exponents that were tried, the nearest two are drawn out.

    Example:
        >>> crossing([2 / (1 + gamma) for gamma in GAMMAS])
        1.0
    """
    places, heights = [math.log1p(gamma) for gamma in GAMMAS], [math.log(value) for value in temperatures]
    pairs = list(itertools.pairwise(zip(places, heights, strict=True)))
    (at, height), (end, low) = next((pair for pair in pairs if pair[1][1] <= 0), pairs[-1])
    return math.expm1(at + (end - at) * height / (height - low))


def _crossings(cell: Mapping[str, Any]) -> list[float]:
    """The exponent that calibrates, seed by seed."""
    by_seed = zip(*(arm_of(cell, gamma)["each"]["test_temperature"] for gamma in GAMMAS), strict=True)
    return [crossing(values) for values in by_seed if None not in values]


def words_of_limit(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says of the limit."""
    limit = numbers["limit"]
    rows = [
        {"cell": cell, "gamma": gamma, "each": {name: by_name[name][place][2] for name in COMPARED}}
        for by_name in [{name: list(comparisons(numbers, name)) for name in COMPARED}]
        for place, (cell, gamma, _) in enumerate(by_name[COMPARED[0]])
    ]
    sizes = cells_among(numbers, BY_SIZE)
    return {
        "by_size": [row for cell in sizes for row in rows if row["cell"] is cell and row["gamma"] in SHOWN],
        "agreement": [_agreement(numbers, name) for name in COMPARED[:2]],
        "calibrating": calibrating_rows(numbers),
        "interpolated": max(
            (
                abs(
                    crossing([arm["each"][place]["test_temperature"] for arm in limit["arms"]])
                    - at["exponent"]
                )
                for place, at in enumerate(limit["calibrating"])
            ),
            default=0.0,
        ),
        "least_curvature": min(_over_arms(limit, "least_curvature"), default=1.0),
        "instability": max(_over_arms(limit, "instability"), default=0.0),
    }


def _over_arms(limit: Mapping[str, Any], name: str) -> list[float]:
    return [each[name] for arm in limit["arms"] for each in arm["each"]]


def _agreement(numbers: Mapping[str, Any], name: str) -> dict[str, Any]:
    """How many intervals hold the limit, and how the differences are spread."""
    found = [(cell, each) for cell, _, each in comparisons(numbers, name) if each.errors is not None]
    errors = [each.errors for _, each in found if each.errors is not None]
    held = [each.found.low <= each.limit <= each.found.high for _, each in found]
    return {
        "name": name,
        "held": sum(held),
        "missed": list(
            dict.fromkeys(
                (cell["num_samples"], cell["num_features"])
                for (cell, _), holds in zip(found, held, strict=True)
                if not holds
            )
        ),
        "of": len(held),
        "mean": fmean(errors) if errors else None,
        "largest": max(errors, key=abs, default=None),
    }


def calibrating_rows(numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The exponent that calibrates in the limit and in the cells, from the largest load to the smallest."""
    rows: list[dict[str, Any]] = []
    for cell in sorted(numbers["cells"], key=lambda each: (-load_of(each), each["num_samples"])):
        place, found = _place(numbers, cell), _crossings(cell)
        if place is not None and found:
            limit = numbers["limit"]["calibrating"][place]
            rows.append(
                {
                    "cell": cell,
                    **limit,
                    "compared": _compared(mean_of(found), limit["exponent"]),
                    "cross_entropy": (limit_of(numbers, cell, 0.0) or {})["test_temperature"],
                }
            )
    return rows
