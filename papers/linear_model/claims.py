"""What the appendix says of the linear model, held against the runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant._math.means import mean_of, paired_difference, plus_minus
from papers.claims import (
    Claim,
    Departure,
    above,
    all_of,
    below,
    compared,
    exchanged,
    within,
)
from papers.linear_model.numbers import difference, each_of
from papers.linear_model.settings import GAMMAS

PAPER = "Mukhoti et al. 2020"
SOURCE = f"{PAPER}, appendix G"
NEEDED = "what the argument needs"
"""The source of what the appendix does not say, but argues with."""
PAIR = ("0", "1")
OF_NETWORKS = Departure(
    verdict="depends on the network",
    what="The paper says it of networks with ten classes, where true classes start at a probability of some "
    "0.1, below the threshold p0(γ) under which focal loss pushes more. With two classes from w = 0 they "
    "start at 0.5, above every p0(γ), where it pushes less than cross-entropy.",
)
"""Why growth at first on this model does not refute what is said of networks."""
SAME_ANGLE = 5.0
"""Degrees within which two weight vectors count as pointing the same way."""
ALMOST_ALWAYS = 90.0
"""Per cent of the mistakes."""


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim, in the order of the page."""
    return [
        _smaller(numbers),
        _same_regions(numbers),
        _faster_at_first(numbers),
        _errs_above_90(numbers),
        _lower(
            numbers, "less-sure", "Focal loss is less sure of its mistakes", "mistakes_confidence", SOURCE
        ),
        _nearer_truth(numbers),
        _lower(
            numbers, "lower-ece", "Focal loss has a lower expected calibration error (ECE)", "ece", NEEDED
        ),
    ]


def swapped(numbers: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two exponents exchanged."""
    return exchanged(numbers, "gamma", float(first), float(second))


def _arms(numbers: Mapping[str, Any], name: str) -> list[tuple[str, list[float]]]:
    """A number of focal loss with γ = 1 and of cross-entropy, seed by seed."""
    return [("γ = 1", each_of(numbers, 1.0, name)), ("cross-entropy", each_of(numbers, 0.0, name))]


def _smaller(numbers: Mapping[str, Any]) -> Claim:
    _, said = compared(*_arms(numbers, "norm"))
    return Claim(
        key="smaller",
        source=SOURCE,
        statement="Focal loss keeps weights and logits smaller",
        verdict=all_of(
            below(difference(numbers, gamma, name)) for gamma in GAMMAS[1:] for name in ("norm", "logits")
        ),
        evidence=f"norm of w: {said}",
        arms=PAIR,
    )


def _lower(numbers: Mapping[str, Any], key: str, statement: str, name: str, source: str) -> Claim:
    gap, said = compared(*_arms(numbers, name), digits=1, unit=" %")
    return Claim(key=key, source=source, statement=statement, verdict=below(gap), evidence=said, arms=PAIR)


def _same_regions(numbers: Mapping[str, Any]) -> Claim:
    turns = {gamma: difference(numbers, gamma, "angle") for gamma in GAMMAS[1:]}
    apart = max(
        abs(focal - plain)
        for gamma in turns
        for focal, plain in zip(each_of(numbers, gamma, "angle"), each_of(numbers, 0.0, "angle"), strict=True)
    )
    return Claim(
        key="same-regions",
        source=SOURCE,
        statement="All losses have the same decision regions",
        verdict=all_of(within(turn, low=-SAME_ANGLE, high=SAME_ANGLE) for turn in turns.values()),
        evidence=f"on every seed the weights of all losses point the same way within {apart:.1f}° "
        f"(the claim counts as true where the mean turn is within {SAME_ANGLE:g}°)",
    )


def _faster_at_first(numbers: Mapping[str, Any]) -> Claim:
    plain = [run["arms"][0]["norms"][0] for run in numbers["runs"]]
    focal = [run["arms"][1]["norms"][0] for run in numbers["runs"]]
    ratio = mean_of([one / other for one, other in zip(focal, plain, strict=True)])
    return Claim(
        key="faster-at-first",
        source=f"{PAPER}, section 4",
        statement="Focal loss makes the weights grow faster at first",
        verdict=above(paired_difference(focal, plain)),
        evidence=f"after the first step the norm with γ = 1 is {plus_minus(ratio, 2)} times cross-entropy's",
        arms=PAIR,
        departures=(OF_NETWORKS,),
    )


def _errs_above_90(numbers: Mapping[str, Any]) -> Claim:
    found, everywhere = (
        mean_of(each_of(numbers, 0.0, name)) for name in ("mistakes_above_90", "all_above_90")
    )
    return Claim(
        key="errs-above-90",
        source=SOURCE,
        statement="Cross-entropy errs almost always above 90 %",
        verdict=above(found, ALMOST_ALWAYS),
        evidence=f"{found.value:.0f} % of its mistakes lie there, and {everywhere.value:.0f} % of all points",
    )


def _nearer_truth(numbers: Mapping[str, Any]) -> Claim:
    both = zip(_arms(numbers, "mistakes_confidence"), _arms(numbers, "mistakes_truth"), strict=True)
    misses = [
        (name, [abs(one - other) for one, other in zip(confidences, truths, strict=True)])
        for (name, confidences), (_, truths) in both
    ]
    gap, said = compared(*misses, digits=1)
    truth = mean_of(each_of(numbers, 0.0, "mistakes_truth")).value
    return Claim(
        key="nearer-truth",
        source=NEEDED,
        statement="Focal loss's confidence in its mistakes is the nearer one to the truth",
        verdict=below(gap),
        evidence=f"the stated class is true at cross-entropy's mistakes with {truth:.1f} %; distance in "
        f"points: {said}",
        arms=PAIR,
    )
