"""The argument about the generalisation gap, held against the fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant._math.means import Mean, mean_of, paired_difference, plus_minus, read_mean
from papers.claims import OWN, Claim, above, all_of, below, compared, exchanged, within
from papers.generalisation_gap.limit import MANY, near_limit
from papers.generalisation_gap.numbers import (
    arm_of,
    cells_among,
    heaviest_and_lightest,
    load_of,
    pairs,
    ratios,
)
from papers.generalisation_gap.settings import BY_CAPACITY, BY_SAMPLES, GAMMAS
from papers.losses.left_open import about_one

SOURCE = "Komisarenko and Kull 2024, section 4.1"
SAME_TEMPERATURE = 0.05
"""How far a mean ratio of temperatures may be from 1."""
Cell = Mapping[str, Any]


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim, in the order of the page."""
    heavy, light = heaviest_and_lightest(numbers)
    return [
        _calibrated_on_sample(numbers),
        _overconfident(numbers, heavy, light),
        *_gap_closes(numbers),
        _fixed_factor(numbers),
        about_one(_better(heavy, "better-heavy", SOURCE, "largest"), _proper(heavy)),
        _better(light, "better-light", OWN, "smallest"),
        *_limit(numbers),
    ]


def swapped(numbers: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two exponents exchanged."""
    return exchanged(numbers, "gamma", float(first), float(second))


def _counted(cell: Cell, name: str) -> list[float]:
    return [value for value in arm_of(cell, 0.0)["each"][name] if value is not None]


def _calibrated_on_sample(numbers: Mapping[str, Any]) -> Claim:
    found = [mean_of(values) for cell in numbers["cells"] if (values := _counted(cell, "train_temperature"))]
    farthest = max(
        abs(each) for cell in numbers["cells"] for each in _counted(cell, "train_temperature_less_1")
    )
    bounds = {"low": 1 - SAME_TEMPERATURE, "high": 1 + SAME_TEMPERATURE}
    return Claim(
        key="calibrated-on-sample",
        source=SOURCE,
        statement="Cross-entropy is calibrated on its own sample",
        verdict=all_of(within(each, **bounds) for each in found),
        evidence=f"its best temperature there is at most {farthest:.1e} from 1 in any fit "
        "(the gradient of the minimum says so)",
    )


def _overconfident(numbers: Mapping[str, Any], heavy: Cell, light: Cell) -> Claim:
    found = [
        read_mean(each) for cell in numbers["cells"] if (each := arm_of(cell, 0.0)["test_overconfidence"])
    ]
    over = sum(above(each) == "holds" for each in found)
    ends = [_proper(cell) for cell in (heavy, light)]
    return Claim(
        key="overconfident",
        source=SOURCE,
        statement="Cross-entropy is over-confident on new samples where they are few for the features",
        verdict=above(ends[0], 1.0),
        evidence=f"its best temperature there is {ends[0].value:.2f} at d / n = {load_of(heavy):.3g} and "
        f"{ends[1].value:.3f} at {load_of(light):.3g}; in {over} of {len(found)} cells the interval of its "
        "over-confidence lies above 0",
    )


def _gap_closes(numbers: Mapping[str, Any]) -> list[Claim]:
    """Over-confidence at one end of a sweep less that at the other."""
    found: list[Claim] = []
    for key, what, sweep in (
        ("more-samples", "More samples close the gap", BY_SAMPLES),
        ("fewer-features", "Fewer features close the gap", BY_CAPACITY),
    ):
        cells = sorted(cells_among(numbers, sweep), key=load_of)
        if len(cells) < 2:
            continue
        low, high = (arm_of(cell, 0.0)["each"]["test_overconfidence"] for cell in (cells[0], cells[-1]))
        both = [
            (more, less)
            for more, less in zip(high, low, strict=True)
            if more is not None and less is not None
        ]
        if not both:
            continue
        gap = paired_difference([more for more, _ in both], [less for _, less in both])
        found.append(
            Claim(
                key=key,
                source=OWN,
                statement=what,
                verdict=above(gap),
                evidence=f"cross-entropy's over-confidence at d / n = {load_of(cells[-1]):.3g} is "
                f"{plus_minus(gap, 2, 100, signed=True)} points above that at {load_of(cells[0]):.3g}",
            )
        )
    return found


def _fixed_factor(numbers: Mapping[str, Any]) -> Claim:
    found = [each for cell in numbers["cells"] for gamma in GAMMAS[1:] if (each := ratios(cell, gamma))]
    every = [ratio for each in found for ratio in each]
    bounds = {"low": 1 - SAME_TEMPERATURE, "high": 1 + SAME_TEMPERATURE}
    means = [mean_of(each) for each in found]
    inside = sum(within(each, **bounds) == "holds" for each in means)
    return Claim(
        key="fixed-factor",
        source=SOURCE,
        statement="Focal loss's under-confidence is a fixed factor, laid over the same gap",
        verdict=all_of(within(each, **bounds) for each in means),
        evidence="training temperature times cross-entropy's test temperature gives its test temperature "
        f"times {min(every):.3f} to {max(every):.3f} in all {len(every)} fits; the mean of this factor is "
        f"within {SAME_TEMPERATURE:.0%} of 1 for {inside} of {len(means)} cells and exponents",
    )


def _proper(cell: Cell) -> Mean:
    """What cross-entropy needs on new samples."""
    return mean_of(_counted(cell, "test_temperature"))


def _better(cell: Cell, key: str, source: str, which: str) -> Claim:
    both = pairs(cell, "test_calibration_error", 1.0, "test_calibration_error")
    gap, said = compared(
        ("γ = 1", [focal for focal, _ in both]), ("cross-entropy", [cross for _, cross in both]), scale=100
    )
    return Claim(
        key=key,
        source=source,
        statement=f"Focal loss (γ = 1) is the better calibrated one on new samples, at the {which} load",
        verdict=below(gap),
        evidence=f"calibration error at d / n = {load_of(cell):.3g} in points: {said}; cross-entropy needs a "
        f"temperature of {plus_minus(_proper(cell))} there",
        arms=("1", "0"),
    )


def _limit(numbers: Mapping[str, Any]) -> list[Claim]:
    """Where samples are many; nothing where no cell has many."""
    ratios_to_limit = near_limit(numbers)
    if not ratios_to_limit:
        return []
    bounds = {"low": 1 - SAME_TEMPERATURE, "high": 1 + SAME_TEMPERATURE}
    values = [each.value for each in ratios_to_limit]
    return [
        Claim(
            key="limit",
            source=OWN,
            statement="The limit for infinitely many samples and features gives the temperature",
            verdict=all_of(within(each, **bounds) for each in ratios_to_limit),
            evidence=f"from {MANY} samples on the temperature needed on new samples is {min(values):.3f} to "
            f"{max(values):.3f} times the limit's, by means over seeds, in {len(values)} cells and losses; "
            f"{SAME_TEMPERATURE:.0%} more or less is allowed",
        )
    ]
