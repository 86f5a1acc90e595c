"""What the temperature-line study answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from statistics import fmean, median
from typing import Any

from calibrant.experiments.claims import Claim, above, below, compared
from calibrant.experiments.means import Mean, mean_of, plus_minus
from calibrant.experiments.studies.temperature_line.curves import (
    Curve,
    by_unit,
    file_curves,
    focal_and_plain,
    from_one,
    network_curves,
)
from calibrant.experiments.studies.temperature_line.settings import LINEAR, PLAIN, WHOLE, Criterion

SOURCE = "Komisarenko and Kull 2024, section 5.2"
OPEN = "left open there"
ARMS = ("focal loss", "cross-entropy")
_TIE = 1e-7
"""Temperatures that are multiples of each other are off their lines alike, but for the last digits."""


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim for which there are files or networks."""
    files, networks = file_curves(numbers), network_curves(numbers)
    found = [
        _linear(curves, what)
        for curves, what in ((files, "files and labels"), (networks, "networks"))
        if curves
    ]
    found.append(_not_inverse([*files, *networks]))
    found += [*_rougher([*files, *networks]), _finer([*files, *networks])]
    found += _nearer(networks)
    return [*found, *_full_better(files, "nll"), *_full_better(files, "ece")]


def swapped(numbers: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    """The numbers with the lines of T and 1 / T, the criteria, two searches or two losses exchanged."""
    if (first, second) == ARMS:
        return _losses_swapped(numbers)

    def turned(found: Mapping[str, Any]) -> dict[str, Any]:
        by = found["temperatures"]
        if {first, second} == {"T", "1/T"}:
            return {**found, "temperatures": {**by, "nll": [1 / value for value in by["nll"]]}}
        if {first, second} == {"ece", "nll"}:
            return {**found, "temperatures": {"nll": by["ece"], "ece": by["nll"]} if "ece" in by else by}
        if {first, second} == {"line", "coarse"}:
            reached = found["nll"]
            return {**found, "nll": {**reached, first: reached[second], second: reached[first]}}
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


def _losses_swapped(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers where cross-entropy is as far from T = 1 as focal loss was on average, and the reverse."""
    at_zero = numbers["gammas"].index(0.0)
    pairs = {pair.unit: pair for pair in focal_and_plain(network_curves(numbers))}

    def turned(curve: Curve) -> dict[str, Any]:
        pair = pairs[curve.unit]
        far = fmean(map(from_one, pair.focal)) if curve.found["loss"] == PLAIN else from_one(pair.plain)
        reached = list(curve.likeliest)
        reached[at_zero] = exp(far)
        return {**curve.found, "temperatures": {**curve.found["temperatures"], "nll": reached}}

    return {**numbers, "networks": [turned(curve) for curve in network_curves(numbers)]}


def _linear(curves: Sequence[Curve], what: str) -> Claim:
    lines = [curve.line() for curve in curves]
    found = mean_of(by_unit(curves, [line.r_squared for line in lines]))
    off = [line.deviation for line in lines]
    return Claim(
        key=f"linear, {what}",
        source=SOURCE,
        statement=f"T is close to linear in γ, on {what}",
        verdict=above(found, LINEAR),
        evidence=f"over γ from {WHOLE[0]:g} to {WHOLE[1]:g}, R² is above {LINEAR:g} on "
        f"{sum(line.r_squared > LINEAR for line in lines)} of {len(lines)} (mean {plus_minus(found, 4)}, "
        f"n = {found.n}, least {min(line.r_squared for line in lines):.4f}), and T is off its line by at "
        f"most {100 * median(off):.1f} % at the median, {100 * max(off):.0f} % at worst",
    )


def _not_inverse(curves: Sequence[Curve]) -> Claim:
    straight = [curve.line().deviation for curve in curves]
    inverse = [curve.inverse_line.deviation for curve in curves]
    closer = sum(one < other for one, other in zip(straight, inverse, strict=True))
    return Claim(
        key="not-inverse",
        source=SOURCE,
        statement="T is nearer to a straight line than 1 / T",
        verdict=below(_difference(curves, straight, inverse)),
        evidence=f"it is on {closer} of {len(curves)}; off by at most {100 * median(straight):.1f} % at the "
        f"median, 1 / T by {100 * median(inverse):.1f} %",
        arms=("T", "1/T"),
    )


def _difference(curves: Sequence[Curve], first: Sequence[float], second: Sequence[float]) -> Mean:
    """Mean of first minus second, over what is independent: labels of a file, losses of a seed are one."""
    return mean_of(by_unit(curves, [one - other for one, other in zip(first, second, strict=True)]))


def _rougher(curves: Sequence[Curve]) -> list[Claim]:
    known = [(curve, line) for curve in curves if (line := curve.ece_line) is not None]
    if not known:
        return []
    by_ece = [line.deviation for _, line in known]
    by_nll = [curve.line().deviation for curve, _ in known]
    fits = [line.r_squared for _, line in known]
    rougher = sum(one > other + _TIE for one, other in zip(by_ece, by_nll, strict=True))
    claim = Claim(
        key="rougher",
        source="the paper's figure 8 is by ECE",
        statement="Chosen by ECE, T is farther off its line than chosen by NLL",
        verdict=above(_difference([curve for curve, _ in known], by_ece, by_nll)),
        evidence=f"it is on {rougher} of {len(known)}: by ECE R² is {min(fits):.3f} to {max(fits):.4f}, and "
        f"T is off by {100 * median(by_ece):.1f} % at the median (by NLL {100 * median(by_nll):.1f} %)",
        arms=("ece", "nll"),
    )
    return [claim]


def _finer(curves: Sequence[Curve]) -> Claim:
    """What is lost on the line, by the size of the steps."""
    fine, coarse = ([curve.lost_by(search) for curve in curves] for search in ("line", "coarse"))
    found = _difference(curves, fine, coarse)
    less = sum(one < other for one, other in zip(fine, coarse, strict=True))
    return Claim(
        key="finer",
        source=f"{SOURCE}: T in steps of 0.01",
        statement="Searched in steps of 0.01 the line loses less NLL than in steps of 0.1",
        verdict=below(found),
        evidence=f"it does on {less} of {len(curves)}; the difference is {plus_minus(found, 5, signed=True)} "
        f"on average, n = {found.n}",
        arms=("line", "coarse"),
    )


def _nearer(networks: Sequence[Curve]) -> list[Claim]:
    """One for each data set: whether focal loss needs a temperature nearer to 1, by seeds."""
    pairs = focal_and_plain(networks)
    found: list[Claim] = []
    for data in dict.fromkeys(pair.data for pair in pairs):
        seeds = [pair for pair in pairs if pair.data == data]
        focal = [fmean(map(from_one, pair.focal)) for pair in seeds]
        gap, said = compared((ARMS[0], focal), (ARMS[1], [from_one(pair.plain) for pair in seeds]))
        nearer = sum(from_one(each) < from_one(pair.plain) for pair in seeds for each in pair.focal)
        found.append(
            Claim(
                key=f"nearer, {data}",
                source="Komisarenko and Kull 2024, section 4.1",
                statement=f"Focal loss needs a temperature nearer to 1 than cross-entropy's, on {data}",
                verdict=below(gap),
                evidence=f"it does on {nearer} of {sum(len(pair.focal) for pair in seeds)} networks with "
                f"γ = 1, 2 and 3; distance of log T from 0, mean over a seed's exponents: {said}, "
                f"n = {gap.n} seeds",
                arms=ARMS,
            )
        )
    return found


def _full_better(files: Sequence[Curve], by: Criterion) -> list[Claim]:
    """The fall of the criterion from the search along the line to the full one, on halves not fitted on."""
    known = [(curve, fall) for curve in files if (fall := curve.held_out(by, "full", "line")) is not None]
    if not known:
        return []
    falls = [fall for _, fall in known]
    found = mean_of(by_unit([curve for curve, _ in known], falls))
    farthest, largest = max(known, key=lambda each: abs(each[1]))
    claim = Claim(
        key=f"full-better, {by}",
        source=OPEN,
        statement=f"On samples not fitted on, the full search has a lower {by.upper()} than the line",
        verdict=above(found),
        evidence=f"the line is the better one on {sum(fall < 0 for fall in falls)} of {len(falls)} files and "
        f"labels, by {-median(falls):+.1e} at the median; the full search is lower by "
        f"{plus_minus(found, 5)} on average, n = {found.n} files, and by {largest:+.5f} on "
        f"`{farthest.name}`, the largest difference",
        arms=("full", "line"),
    )
    return [claim]
