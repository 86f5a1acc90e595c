"""Whether repairs that are fitted to labels, and what losses ask for, come nearer to people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from calibrant.experiments.claims import NOT_CLAIMED, OWN, Claim, Ruling, Word, all_of, within
from calibrant.experiments.means import Mean, plus_minus
from calibrant.experiments.studies.calibrators.gains import Sides, adjusted, sides
from calibrant.experiments.studies.human_posteriors.numbers import NORMAL, family, interval
from calibrant.experiments.studies.human_posteriors.settings import (
    AS_TRAINED,
    FCL_ASKED,
    FOCAL,
    FOCAL_ASKED,
    IDEAL_FCL,
    IDEAL_FOCAL,
    MAP,
    MEASURES,
    SAID,
    TEMPERATURE,
)

SAME = 1.1
"""The factor within which two temperatures count as the same."""
ASKED = (
    (OWN, TEMPERATURE, AS_TRAINED),
    (OWN, FOCAL, AS_TRAINED),
    (NOT_CLAIMED, FOCAL, TEMPERATURE),
    (OWN, MAP, AS_TRAINED),
    (OWN, FOCAL_ASKED, AS_TRAINED),
    (OWN, FCL_ASKED, AS_TRAINED),
    (NOT_CLAIMED, TEMPERATURE, IDEAL_FOCAL),
    (NOT_CLAIMED, TEMPERATURE, IDEAL_FCL),
)
"""Source, and the arm that is claimed to be nearer to people than the other."""


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every comparison of two arms by both measures, and the two temperatures."""
    found = [claim for measure in MEASURES for claim in _nearer(numbers, measure)]
    return [*found, _same_temperature(numbers)]


def _nearer(numbers: Mapping[str, Any], measure: str) -> Iterator[Claim]:
    gains = family(numbers, measure)
    gains |= {(network, second, first): _turned(gain) for (network, first, second), gain in gains.items()}
    p_values = adjusted(family(numbers, measure))
    p_values |= {(network, second, first): p for (network, first, second), p in p_values.items()}
    titles = {network["network"]: network for network in numbers["networks"]}
    for source, first, second in ASKED:
        mine = {name: gains[name] for name in gains if name[1:] == (first, second)}
        found = sides(mine, p_values)
        each = "; ".join(
            f"{titles[name[0]]['title']}: "
            f"{plus_minus(interval(gain, titles[name[0]]['num_images']), 4, signed=True)}, "
            f"p = {p_values[name]:.2g}, n = {titles[name[0]]['num_images']} images"
            for name, gain in mine.items()
        )
        yield Claim(
            key=f"{first} against {second}, {measure}",
            source=source,
            statement=f"{SAID[first][0].upper()}{SAID[first][1:]} is nearer to people than "
            f"{SAID[second]}, by {MEASURES[measure]}",
            verdict=Ruling(_word(found), min(p_values[name] for name in mine)),
            evidence=f"gain {each}{_exponents(numbers, first)}{_split(found)}",
            arms=(first, second),
        )


def _word(found: Sides) -> Word:
    """Nearer on a network beyond noise, and farther on none."""
    if found.above and not found.below:
        return "holds"
    return "does not hold" if found.below and not found.above else "undecided"


def _split(found: Sides) -> str:
    """What is said where networks contradict each other."""
    if not (found.above and found.below):
        return ""
    return f"; the networks contradict each other: nearer on {found.above}, farther on {found.below}"


def _exponents(numbers: Mapping[str, Any], arm: str) -> str:
    """The exponents that were fitted, of an arm that is a map by itself."""
    found = [network["arms"][arm].get("gamma") for network in numbers["networks"]] if arm == MAP else [None]
    return "" if None in found else f"; γ = {' and '.join(f'{gamma:.2f}' for gamma in found)}"


def _turned(gain: Any) -> Any:
    return type(gain)(-gain.value, gain.error)


def _same_temperature(numbers: Mapping[str, Any]) -> Claim:
    ratios: dict[str, Mean] = {}
    for network in numbers["networks"]:
        found = network["temperatures"]
        ratios[network["title"]] = Mean(
            value=math.log(found["people"] / found["labels"]),
            half_width=NORMAL * found["error"],
            n=network["num_images"],
        )
    limit = math.log(SAME)
    said = "; ".join(
        f"{name}: {math.exp(each.value):.3f} ({math.exp(each.low):.3f} to {math.exp(each.high):.3f})"
        for name, each in ratios.items()
    )
    return Claim(
        key="same-temperature",
        source=OWN,
        statement="The temperature that fits the labels is the one that fits people, within a factor of "
        f"{SAME:g} on every network",
        verdict=all_of(within(each, low=-limit, high=limit) for each in ratios.values()),
        evidence=f"people's temperature over the labels', with its 95 % interval: {said}",
    )
