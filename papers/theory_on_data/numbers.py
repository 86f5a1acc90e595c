"""What the page says beyond the numbers of the results file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from calibrant._math.means import Mean, mean_of
from papers.losses.settings import ARGUMENT, CONTRAST, MUKHOTI
from papers.pages import listed
from papers.theory_on_data.settings import ASKED, GAMMAS, MAP_CLASSES, MARGIN

Row = Mapping[str, Any]


def many_classes(numbers: Row) -> list[Row]:
    """The files with more than two classes."""
    return [each for each in numbers["files"] if each["num_classes"] > 2]


def words(numbers: Row) -> dict[str, Any]:
    """What the template needs."""
    many = many_classes(numbers)
    pairs = [(at["temperature"], at["binary"]) for each in many for at in each["gammas"]]
    sources = dict.fromkeys(each["source"] for each in numbers["temperatures"])
    return {
        "gammas": GAMMAS,
        "margin": MARGIN,
        "argument": ARGUMENT,
        "contrast": CONTRAST,
        "quoted": MUKHOTI,
        "asked_of": {
            source: [*(about_one_key(source, gamma) for gamma in ASKED), f"nearer, {source}"]
            for source in sources
        },
        "map_classes": listed(map(str, MAP_CLASSES)),
        "maps": {gamma: listed(f"{each:.2f}" for each in found) for gamma, found in numbers["maps"].items()},
        "many": many,
        "pairs": len(pairs),
        "larger": sum(here > binary * (1 + 1e-6) for here, binary in pairs),
        "largest": max((here / binary for here, binary in pairs), default=math.nan),
        "sources": {source: _source(of_source(numbers, source)) for source in sources},
    }


def about_one_key(source: str, gamma: float) -> str:
    """The name of the claim that a source's temperature is about 1."""
    return f"about-one, {source}" + ("" if gamma == ASKED[0] else f", γ = {gamma:g}")


def of_source(numbers: Row, source: str) -> list[Row]:
    """The networks of one source."""
    return [each for each in numbers["temperatures"] if each["source"] == source]


def _source(rows: Sequence[Row]) -> dict[str, Any]:
    places = [_place(each) for each in rows]
    return {
        "rows": [{**each, "means": _means(each)} for each in rows],
        "between": places.count("between"),
        "above": places.count("above"),
        "below": places.count("below"),
        "count": len(rows),
        "networks": len({each["network"] for each in rows}),
        "near_one": sum(abs(mean_of(each["needed"]).value - 1) <= MARGIN + 1e-9 for each in rows),
        "nearer": sum(from_one(each["needed"]) < from_one(each["proper"]) for each in rows),
        "constant": _best_constant(rows),
        "two_classes": [{**each, "means": _means(each)} for each in rows if each["num_classes"] == 2],
    }


def _best_constant(rows: Sequence[Row]) -> tuple[float, int]:
    """The temperature, in steps of .01, that lies between the two products in the most rows; in how many."""
    ends = [[mean_of(each["proper"]).value * each[name] for name in ("binary", "closest")] for each in rows]
    steps = [step / 100 for step in range(1, 501)]
    hits = {step: sum(low <= step <= high for low, high in ends) for step in steps}
    best = [step for step in steps if hits[step] == max(hits.values())]
    return best[len(best) // 2], hits[best[0]]


def from_one(temperatures: Sequence[float]) -> float:
    """How far the mean temperature is from 1, as a logarithm."""
    return abs(math.log(mean_of(temperatures).value))


def _means(each: Row) -> list[Mean]:
    """Cross-entropy's temperature, both predictions, focal loss's temperature, and its share of the first."""
    proper, needed = each["proper"], each["needed"]
    return [
        mean_of(proper),
        mean_of([each["binary"] * temperature for temperature in proper]),
        mean_of([each["closest"] * temperature for temperature in proper]),
        mean_of(needed),
        mean_of([focal / plain for focal, plain in zip(needed, proper, strict=True)]),
    ]


def _place(each: Row) -> str:
    """Where what focal loss needs lies among the two predictions."""
    proper, needed = mean_of(each["proper"]).value, mean_of(each["needed"]).value
    if needed > each["closest"] * proper:
        return "above"
    return "between" if needed >= each["binary"] * proper else "below"
