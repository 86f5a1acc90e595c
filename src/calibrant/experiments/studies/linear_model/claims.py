"""What the appendix says of the linear model, held against the runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.experiments.claims import Claim, above, all_of, below, exchanged, within
from calibrant.experiments.means import mean_of, paired_difference
from calibrant.experiments.pages import loss_name, plus_minus
from calibrant.experiments.studies.linear_model.numbers import difference, each_of
from calibrant.experiments.studies.linear_model.settings import GAMMAS

SOURCE = "Mukhoti et al. 2020, appendix G"
PAIR = ("0", "1")
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
        _less_sure(numbers),
        _nearer_truth(numbers),
        _lower_ece(numbers),
    ]


def swapped(numbers: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two exponents exchanged."""

    def arms(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return exchanged(rows, "gamma", float(first), float(second))

    runs = [{**run, "arms": arms(run["arms"])} for run in numbers["runs"]]
    return {**numbers, "arms": arms(numbers["arms"]), "runs": runs}


def _compared(numbers: Mapping[str, Any], name: str, digits: int, unit: str = "") -> str:
    """Both means and their difference."""
    plain, focal = (mean_of(each_of(numbers, gamma, name)) for gamma in (0.0, 1.0))
    gap = plus_minus(difference(numbers, 1.0, name), digits, signed=True)
    return (
        f"{plus_minus(plain, digits)}{unit} with cross-entropy and {plus_minus(focal, digits)}{unit} with "
        f"γ = 1, difference {gap}"
    )


def _smaller(numbers: Mapping[str, Any]) -> Claim:
    return Claim(
        key="smaller",
        source=SOURCE,
        statement="Focal loss keeps weights and logits smaller",
        verdict=all_of(
            below(difference(numbers, gamma, name)) for gamma in GAMMAS[1:] for name in ("norm", "logits")
        ),
        evidence=f"the norm of w is {_compared(numbers, 'norm', 2)}",
        arms=PAIR,
    )


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
        source=SOURCE,
        statement="Focal loss makes the weights grow faster at first",
        verdict=above(paired_difference(focal, plain)),
        evidence=f"after the first step the norm with γ = 1 is {plus_minus(ratio, 2)} times cross-entropy's",
        arms=PAIR,
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


def _less_sure(numbers: Mapping[str, Any]) -> Claim:
    return Claim(
        key="less-sure",
        source=SOURCE,
        statement="Focal loss is less sure of its mistakes",
        verdict=below(difference(numbers, 1.0, "mistakes_confidence")),
        evidence=f"its confidence there is {_compared(numbers, 'mistakes_confidence', 1, ' %')}",
        arms=PAIR,
    )


def _nearer_truth(numbers: Mapping[str, Any]) -> Claim:
    def misses(gamma: float) -> list[float]:
        pairs = zip(
            each_of(numbers, gamma, "mistakes_confidence"),
            each_of(numbers, gamma, "mistakes_truth"),
            strict=True,
        )
        return [abs(confidence - truth) for confidence, truth in pairs]

    truth = mean_of(each_of(numbers, 0.0, "mistakes_truth")).value
    found = paired_difference(misses(1.0), misses(0.0))
    each = "; ".join(f"{loss_name(gamma)}: {plus_minus(mean_of(misses(gamma)), 1)}" for gamma in (0.0, 1.0))
    return Claim(
        key="nearer-truth",
        source="what the argument needs",
        statement="Focal loss's confidence in its mistakes is the nearer one to the truth",
        verdict=below(found),
        evidence=f"the stated class is true at cross-entropy's mistakes with {truth:.1f} %; distance "
        f"in points, {each}",
        arms=PAIR,
    )


def _lower_ece(numbers: Mapping[str, Any]) -> Claim:

    return Claim(
        key="lower-ece",
        source="Mukhoti et al. 2020",
        statement="Focal loss is the better calibrated one",
        verdict=below(difference(numbers, 1.0, "ece")),
        evidence=f"the expected calibration error (ECE) is {_compared(numbers, 'ece', 1, ' %')}",
        arms=PAIR,
    )
