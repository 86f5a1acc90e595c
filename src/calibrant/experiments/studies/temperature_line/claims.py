"""What the temperature-line study answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from calibrant.experiments.claims import Claim, above, below
from calibrant.experiments.means import mean_of, paired_difference, plus_minus
from calibrant.experiments.studies.temperature_line.curves import (
    Curve,
    file_curves,
    network_curves,
    range_name,
)
from calibrant.experiments.studies.temperature_line.settings import LINEAR, WHOLE, Criterion

SOURCE = "Komisarenko and Kull 2024, section 5.2"
OPEN = "left open there"


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim for which there are files or networks."""
    files, networks = file_curves(numbers), network_curves(numbers)
    found = [
        _linear(curves, what)
        for curves, what in ((files, "files and labels"), (networks, "networks"))
        if curves
    ]
    found.append(_not_inverse([*files, *networks]))
    found += _rougher([*files, *networks])
    return [*found, *_full_better(files, "nll"), *_full_better(files, "ece")]


def swapped(numbers: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    """The numbers with the lines of T and 1 / T, the criteria, or two searches exchanged."""

    def turned(found: Mapping[str, Any]) -> dict[str, Any]:
        whole = found["lines"][range_name(WHOLE)]
        if {first, second} == {"T", "1/T"}:
            lines = {**found["lines"], range_name(WHOLE): {"T": whole["1/T"], "1/T": whole["T"]}}
            return {**found, "lines": lines}
        if {first, second} == {"ece", "nll"}:
            if found["by_ece"] is None:
                return {**found}
            lines = {**found["lines"], range_name(WHOLE): {**whole, "T": found["by_ece"]}}
            return {**found, "lines": lines, "by_ece": whole["T"]}
        held_out = {
            by: {**halves, first: halves[second], second: halves[first]}
            for by, halves in found["held_out"].items()
        }
        return {**found, "held_out": held_out}

    return {
        **numbers,
        "files": {name: turned(found) for name, found in numbers["files"].items()},
        "networks": [turned(found) for found in numbers["networks"]],
    }


def _linear(curves: Sequence[Curve], what: str) -> Claim:
    lines = [curve.line() for curve in curves]
    found = mean_of([line.r_squared for line in lines])
    off = [line.deviation for line in lines]
    return Claim(
        key=f"linear, {what}",
        source=SOURCE,
        statement=f"T is close to linear in γ, on {what}",
        verdict=above(found, LINEAR),
        evidence=f"over γ from {WHOLE[0]:g} to {WHOLE[1]:g}, R² is above {LINEAR:g} on "
        f"{sum(line.r_squared > LINEAR for line in lines)} of {len(lines)} (mean {plus_minus(found, 4)}, "
        f"least {min(line.r_squared for line in lines):.4f}), and T is off its line by at most "
        f"{100 * median(off):.1f} % at the median, {100 * max(off):.0f} % at worst",
    )


def _not_inverse(curves: Sequence[Curve]) -> Claim:
    straight = [curve.line().deviation for curve in curves]
    inverse = [curve.inverse_line.deviation for curve in curves]
    closer = sum(one < other for one, other in zip(straight, inverse, strict=True))
    return Claim(
        key="not-inverse",
        source=SOURCE,
        statement="T is nearer to a straight line than 1 / T",
        verdict=below(paired_difference(straight, inverse)),
        evidence=f"it is on {closer} of {len(curves)}; off by at most {100 * median(straight):.1f} % at the "
        f"median, 1 / T by {100 * median(inverse):.1f} %",
        arms=("T", "1/T"),
    )


def _rougher(curves: Sequence[Curve]) -> list[Claim]:
    known = [(line, curve.line()) for curve in curves if (line := curve.ece_line) is not None]
    if not known:
        return []
    by_ece, by_nll = ([pair[place].deviation for pair in known] for place in (0, 1))
    fits = [line.r_squared for line, _ in known]
    rougher = sum(one > other for one, other in zip(by_ece, by_nll, strict=True))
    claim = Claim(
        key="rougher",
        source="the paper's figure 8 is by ECE",
        statement="Chosen by ECE, T is farther off its line than chosen by NLL",
        verdict=above(paired_difference(by_ece, by_nll)),
        evidence=f"it is on {rougher} of {len(known)}: by ECE R² is {min(fits):.3f} to {max(fits):.4f}, and "
        f"T is off by {100 * median(by_ece):.1f} % at the median (by NLL {100 * median(by_nll):.1f} %)",
        arms=("ece", "nll"),
    )
    return [claim]


def _full_better(files: Sequence[Curve], by: Criterion) -> list[Claim]:
    """The fall of the criterion from the search along the line to the full one, on halves not fitted on."""
    falls = [fall for curve in files if (fall := curve.held_out(by, "full", "line")) is not None]
    if not falls:
        return []
    found = mean_of(falls)
    claim = Claim(
        key=f"full-better, {by}",
        source=OPEN,
        statement=f"On samples not fitted on, the full search has a lower {by.upper()} than the line",
        verdict=above(found),
        evidence=f"the line is the better one on {sum(fall < 0 for fall in falls)} of {len(falls)} files and "
        f"labels, by {-median(falls):+.1e} at the median; the full search is lower by "
        f"{plus_minus(found, 5)} on average",
        arms=("full", "line"),
    )
    return [claim]
