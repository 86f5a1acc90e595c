"""Whether repairs that are fitted to labels, and what losses ask for, come nearer to people."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from calibrant._math.means import Mean, plus_minus
from papers.claims import NOT_CLAIMED, OWN, Claim, Ruling, Word, all_of, within
from papers.human_posteriors.numbers import (
    NORMAL,
    Compared,
    interval,
    on_networks,
    p_text,
    said_of,
)
from papers.human_posteriors.settings import (
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
    for source, first, second in ASKED:
        found = on_networks(numbers, measure, first, second)
        each = "; ".join(
            f"{one.network}: {plus_minus(interval(one.gain, one.num_images), 4, signed=True)}, "
            f"p {'' if '<' in (p := p_text(one.p_value)) else '= '}{p}, n = {one.num_images} images"
            for one in found
        )
        yield Claim(
            key=f"{first} against {second}, {measure}",
            source=source,
            statement=f"{SAID[first][0].upper()}{SAID[first][1:]} is nearer to people than "
            f"{SAID[second]}, by {MEASURES[measure]}",
            verdict=Ruling(_word({one.side for one in found}), _p_value(found)),
            evidence=f"gain {each}{_exponents(numbers, first)}{_where(found)}",
            arms=(first, second),
        )


def _p_value(found: Sequence[Compared]) -> float:
    """The smallest; of networks that contradict each other, that of the side which has less to show."""
    sides = {side: [one.p_value for one in found if one.side == side] for side in (1, -1)}
    if all(sides.values()):
        return max(map(min, sides.values()))
    return min(one.p_value for one in found)


def _word(sides: Collection[int]) -> Word:
    """Nearer on a network beyond noise, and farther on none; mixed where networks contradict each other."""
    if {1, -1} <= {*sides}:
        return "mixed"
    return "holds" if 1 in sides else "does not hold" if -1 in sides else "undecided"


def _where(found: Sequence[Compared]) -> str:
    """What is said where networks differ, or where few images carry the gain."""
    sides = {one.side for one in found}
    apart = "the networks contradict each other: " if {1, -1} <= sides else ""
    said = f"; {apart}{said_of(found)}" if len(sides) > 1 else ""
    return said + "".join(
        f"; on {one.network} a hundredth of the images decides it: without those that differ most the gain "
        f"is {one.without_top:+.4f}"
        for one in found
        if one.side * one.without_top < 0
    )


def _exponents(numbers: Mapping[str, Any], arm: str) -> str:
    """The exponents that were fitted, of an arm that is a map by itself."""
    found = [network["arms"][arm].get("gamma") for network in numbers["networks"]] if arm == MAP else [None]
    return "" if None in found else f"; γ = {' and '.join(f'{gamma:.2f}' for gamma in found)}"


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
