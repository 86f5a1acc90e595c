"""What the papers claim, asked with the sum; and whether what differs is the length of the gradient."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from papers.arms import ArmRuns
from papers.claims import OWN, PRACTICE, Claim, Departure
from papers.losses.claims import asked
from papers.losses.left_open import by_design, of_long_tail
from papers.losses.settings import FCL
from papers.paired import Asked, Quantity, enough
from papers.sum_or_mean.numbers import arms_of, tail_of
from papers.sum_or_mean.settings import (
    HELD,
    LIGHT,
    LONG,
    MEAN,
    SLOW,
    STEP,
    SUM,
    TAIL,
    TITLES,
)

NAMES = {"ece": "ECE", "temperature": "temperature", "error": "error"}
QUANTITIES: Mapping[str, Quantity] = {
    "ece": Quantity(pick=lambda run: run["stages"]["before"]["ece"], scale=100, unit=" %"),
    "error": Quantity(pick=lambda run: run["stages"]["before"]["error"], scale=100, unit=" %"),
    "temperature": Quantity(pick=lambda run: run["parameters"]["temperature"], digits=3),
}
SUMMED = Departure(
    verdict="depends on the reduction",
    what="The published code of focal calibration loss (2025) averages the loss over the batch (that of its "
    "experiments is not public); here it is summed, and gradients are clipped at 2.",
)
"""What is done otherwise where that paper's claims are asked with the sum."""
AVERAGED = frozenset({"brier"})
"""Losses that the code of Mukhoti et al. for images averages over the batch where it sums the others."""
Ways: TypeAlias = Mapping[str, Mapping[str, ArmRuns]]
"""The losses of each way."""
Pair: TypeAlias = tuple[str, str, str, str]
"""A loss, the way in which the number is claimed to be the lower one, the other way, and the number."""
EQUAL_STEPS = ((SUM, SUM), (HELD, HELD), (MEAN, SLOW), (LONG, STEP))
"""Ways in which gradients, times the rate, are as long under focal loss as under cross-entropy: theirs.

With clipping every gradient is; the rates of the last two pairs match mean lengths of one run's first epochs.
Momentum, and weight decay, which is added after clipping, make the steps themselves differ.
"""
_BETWEEN: tuple[Pair, ...] = (
    ("cross-entropy", MEAN, SUM, "ece"),
    ("cross-entropy", MEAN, SUM, "temperature"),
    ("focal-3", MEAN, SUM, "temperature"),
    ("focal-3", SUM, MEAN, "ece"),
    ("focal-3", MEAN, STEP, "temperature"),
    ("focal-3", MEAN, LONG, "temperature"),
    ("focal-3", LONG, SUM, "temperature"),
    ("focal-3", HELD, SUM, "temperature"),
    ("focal-3", MEAN, HELD, "temperature"),
    ("cross-entropy", HELD, SUM, "temperature"),
    ("cross-entropy", STEP, SUM, "temperature"),
    ("cross-entropy", STEP, SUM, "ece"),
    ("focal-3", LONG, LIGHT, "temperature"),
    ("focal-3", LIGHT, SUM, "temperature"),
    ("focal-3", LONG, MEAN, "ece"),
    ("focal-3", STEP, MEAN, "ece"),
    ("sample-focal", STEP, MEAN, "ece"),
    ("focal-3", SUM, STEP, "ece"),
    ("cross-entropy", SLOW, MEAN, "ece"),
    ("cross-entropy", SLOW, MEAN, "temperature"),
)


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """What is asked of the balanced images, then the same of the long tail."""
    tail = _asked(tail_of(numbers))
    found = [*_asked(numbers), *(_on_the_tail(claim) for claim in tail)]
    return [by_design(claim) for claim in found]


def _on_the_tail(claim: Claim) -> Claim:
    found = of_long_tail(claim)
    return replace(found, key=f"{claim.key}, {TAIL}", statement=f"{claim.statement}, on the {TAIL}")


def _asked(numbers: Mapping[str, Any]) -> list[Claim]:
    """The papers' claims with the sum, then losses within ways, then ways within losses.

    Of the paper on focal calibration loss, whose code averages every loss, nothing is asked of sums and means
    mixed.
    """
    summed, means = (enough(arms_of(numbers, way)) for way in (SUM, MEAN))
    found = [
        replace(
            claim,
            statement=f"{claim.statement} (with the sum)",
            departures=(*claim.departures, *((SUMMED,) if claim.source == FCL else ())),
            arms=claim.arms if AVERAGED.isdisjoint(claim.arms) else (),  # arms of two ways do not exchange
        )
        for claim in asked(as_authors(summed, means))
        if claim.source != PRACTICE and (claim.source != FCL or AVERAGED.isdisjoint(claim.arms))
    ]
    ways = {way: arms_of(numbers, way) for way in TITLES}
    return [*found, *_within(numbers), *at_equal_steps(ways, TITLES), *between(ways, _BETWEEN, TITLES)]


def as_authors(summed: Mapping[str, ArmRuns], means: Mapping[str, ArmRuns]) -> dict[str, ArmRuns]:
    """The losses summed, but the Brier score averaged, as in the code of Mukhoti et al. for images."""
    averaged = {
        key: replace(arm, title=f"{arm.title}, averaged") for key, arm in means.items() if key in AVERAGED
    }
    return {key: arm for key, arm in summed.items() if key not in AVERAGED} | averaged


def _within(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Whether focal loss has the lower error of calibration, however the loss becomes a step.

    With the sum the papers' claims and those at equal steps ask it.
    """
    for way in (MEAN, STEP):
        arms = enough(arms_of(numbers, way))
        for focal in ("focal-3", "sample-focal"):
            yield from _lower(
                f"{focal} within {way}",
                f"{{first}} has a lower ECE than {{second}} ({TITLES[way]})",
                arms.get(focal),
                arms.get("cross-entropy"),
                "ece",
            )


def at_equal_steps(ways: Ways, titles: Mapping[str, str]) -> Iterator[Claim]:
    """Whether focal loss needs a lower temperature, and has a lower ECE, where its gradients are as long."""
    for way, other in EQUAL_STEPS:
        if way not in ways or other not in ways:
            continue
        focal, plain = enough(ways[way]).get("focal-3"), enough(ways[other]).get("cross-entropy")
        where = titles[way] if way == other else f"{titles[way]}, and {titles[other]}"
        length = "one length" if way == other else "about one length, times the learning rate,"
        for name in ("temperature", "ece"):
            found = _lower(
                equal_steps(way, name),
                f"With gradients of {length} the {NAMES[name]} is lower after {{first}} than after "
                f"{{second}} ({where})",
                focal,
                plain,
                name,
            )
            # Arms of two ways do not exchange.
            yield from found if way == other else (replace(claim, arms=()) for claim in found)


def equal_steps(way: str, name: str) -> str:
    """Key of the claim on a number where gradients are of one length."""
    return f"{name} at equal steps, {way}"


def between(ways: Ways, asked_of: Iterable[Pair], titles: Mapping[str, str]) -> Iterator[Claim]:
    """Whether a loss does otherwise in another way."""
    for loss, first, second, name in asked_of:
        ours, theirs = (enough(ways[way]).get(loss) for way in (first, second))
        if ours is None or theirs is None:
            continue
        yield from _lower(
            f"{loss}, {name}, {first} against {second}",
            f"After {ours.title} the {NAMES[name]} is lower with the {{first}} than with the {{second}}",
            replace(ours, key=first, title=titles[first]),
            replace(theirs, key=second, title=titles[second]),
            name,
        )


def _lower(
    key: str, statement: str, first: ArmRuns | None, second: ArmRuns | None, name: str
) -> Iterator[Claim]:
    """That the number is lower in the first arm; the statement names the arms in braces."""
    if first is None or second is None:
        return
    title = f"{first.title[0].upper()}{first.title[1:]}" if statement.startswith("{first}") else first.title
    said = statement.format(first=title, second=second.title)
    yield from Asked(key=key, source=OWN, statement=said).lower(first, second, QUANTITIES[name])
