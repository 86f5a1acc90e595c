"""What the temperature-line study answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp
from statistics import fmean, median
from typing import Any

from calibrant._math.means import Mean, mean_of, plus_minus
from papers.claims import Claim, above, below, compared, sides_exchanged
from papers.grouping import grouped
from papers.losses.left_open import nearer_to_one
from papers.temperature_line.curves import (
    Curve,
    by_unit,
    file_curves,
    from_one,
    network_curves,
)
from papers.temperature_line.settings import CRITERIA, LINEAR, PLAIN, WHOLE, Criterion

SOURCE = "Komisarenko and Kull 2024, section 5.2"
OPEN = "left open there"
ARMS = ("focal loss", "cross-entropy")
STRAIGHT = ("T", "1/T")
_TIE = 1e-7
"""Temperatures that are multiples of each other are off their lines alike, but for the last digits."""


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim for which there are files or networks."""
    files, networks = file_curves(numbers), network_curves(numbers)
    every = [*files, *networks]
    return [
        *_linear(files, "files and labels"),
        *_linear(networks, "networks"),
        _not_inverse(every),
        *_rougher(every),
        _finer(every),
        *_nearer(networks),
        *(claim for by in CRITERIA for claim in _full_better(files, by)),
    ]


def swapped(numbers: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    """The numbers with the lines of T and 1 / T, the criteria, two searches or two losses exchanged."""
    if (first, second) not in {ARMS, STRAIGHT}:
        return sides_exchanged(numbers, first, second)
    at_zero, far = numbers["gammas"].index(0.0), from_one(network_curves(numbers))

    def turned(curve: Curve) -> dict[str, Any]:
        """With the temperatures' inverses, or as far from 1 as the other loss's were on average."""
        found = [1 / value for value in curve.likeliest]
        if (first, second) == ARMS:
            both, found = far[curve.unit], list(curve.likeliest)
            found[at_zero] = exp(fmean(both.focal) if curve.found["loss"] == PLAIN else both.plain)
        return {**curve.found, "temperatures": {**curve.found["temperatures"], "nll": found}}

    files = {} if (first, second) == ARMS else {each.name: turned(each) for each in file_curves(numbers)}
    networks = [turned(curve) for curve in network_curves(numbers)]
    return {**numbers, "files": {**numbers["files"], **files}, "networks": networks}


def _linear(curves: Sequence[Curve], what: str) -> Iterator[Claim]:
    if not curves:
        return
    lines = [curve.line() for curve in curves]
    fits, off = [line.r_squared for line in lines], [line.deviation for line in lines]
    found = mean_of(by_unit(curves, fits))
    yield Claim(
        key=f"linear, {what}",
        source=SOURCE,
        statement=f"T is close to linear in γ, on {what}",
        verdict=above(found, LINEAR),
        evidence=f"over γ from {WHOLE[0]:g} to {WHOLE[1]:g}, R² is above {LINEAR:g} on "
        f"{sum(fit > LINEAR for fit in fits)} of {len(fits)} (mean {plus_minus(found, 4)}, n = {found.n}, "
        f"least {min(fits):.4f}), and T is off its line by at most {100 * median(off):.1f} % at the median, "
        f"{100 * max(off):.0f} % at worst",
    )


def _difference(curves: Sequence[Curve], first: Sequence[float], second: Sequence[float]) -> Mean:
    """Mean of first minus second, over what is independent: labels of a file, losses of a seed are one."""
    return mean_of(by_unit(curves, [one - other for one, other in zip(first, second, strict=True)]))


def _less(first: Sequence[float], second: Sequence[float], tie: float = 0.0) -> str:
    """On how many of all the first is less."""
    return f"{sum(one + tie < other for one, other in zip(first, second, strict=True))} of {len(first)}"


def _not_inverse(curves: Sequence[Curve]) -> Claim:
    straight = [curve.line().deviation for curve in curves]
    inverse = [curve.inverse_line.deviation for curve in curves]
    return Claim(
        key="not-inverse",
        source=SOURCE,
        statement="T is nearer to a straight line than 1 / T",
        verdict=below(_difference(curves, straight, inverse)),
        evidence=f"it is on {_less(straight, inverse)}; off by at most {100 * median(straight):.1f} % at the "
        f"median, 1 / T by {100 * median(inverse):.1f} %",
        arms=STRAIGHT,
    )


def _rougher(curves: Sequence[Curve]) -> Iterator[Claim]:
    followed = [curve for curve in curves if curve.ece_line is not None]
    lines = [line for curve in followed if (line := curve.ece_line) is not None]
    if not lines:
        return
    by_ece, by_nll = [line.deviation for line in lines], [curve.line().deviation for curve in followed]
    fits = [line.r_squared for line in lines]
    yield Claim(
        key="rougher",
        source="the paper's figure 8 is by ECE",
        statement="Chosen by ECE, T is farther off its line than chosen by NLL",
        verdict=above(_difference(followed, by_ece, by_nll)),
        evidence=f"it is on {_less(by_nll, by_ece, _TIE)}: by ECE R² is {min(fits):.3f} to {max(fits):.4f}, "
        f"and T is off by {100 * median(by_ece):.1f} % at the median (by NLL {100 * median(by_nll):.1f} %)",
        arms=("ece", "nll"),
    )


def _finer(curves: Sequence[Curve]) -> Claim:
    """What is lost on the line, by the size of the steps."""
    fine, coarse = ([curve.lost_by(search) for curve in curves] for search in ("line", "coarse"))
    found = _difference(curves, fine, coarse)
    return Claim(
        key="finer",
        source=f"{SOURCE}: T in steps of 0.01",
        statement="Searched in steps of 0.01 the line loses less NLL than in steps of 0.1",
        verdict=below(found),
        evidence=f"it does on {_less(fine, coarse)}; the difference is {plus_minus(found, 5, signed=True)} "
        f"on average, n = {found.n}",
        arms=("line", "coarse"),
    )


def _nearer(networks: Sequence[Curve]) -> Iterator[Claim]:
    """One for each data set: whether focal loss needs a temperature nearer to 1, by seeds."""
    for data, seeds in grouped(from_one(networks).values(), lambda each: each.data).items():
        gap, said = compared(
            (ARMS[0], [fmean(each.focal) for each in seeds]), (ARMS[1], [each.plain for each in seeds])
        )
        nearer = [far < each.plain for each in seeds for far in each.focal]
        claim = Claim(
            key=f"nearer, {data}",
            source="Komisarenko and Kull 2024, section 2",
            statement=f"Focal loss needs a temperature nearer to 1 than cross-entropy's, on {data}",
            verdict=below(gap),
            evidence=f"it does on {sum(nearer)} of {len(nearer)} networks with γ = 1, 2 and 3; distance of "
            f"log T from 0, mean over a seed's exponents: {said}, n = {gap.n} seeds",
            arms=ARMS,
        )
        yield nearer_to_one(claim, mean_of([each.temperature for each in seeds]))


def _full_better(files: Sequence[Curve], by: Criterion) -> Iterator[Claim]:
    """The fall of the criterion from the search along the line to the full one, on halves not fitted on."""
    known = [(curve, fall) for curve in files if (fall := curve.held_out(by, "full", "line")) is not None]
    if not known:
        return
    falls = [fall for _, fall in known]
    found = mean_of(by_unit([curve for curve, _ in known], falls))
    farthest, largest = max(known, key=lambda each: abs(each[1]))
    yield Claim(
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
