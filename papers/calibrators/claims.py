"""What the calibrator study says of focal temperature scaling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from calibrant._math.means import mean_of, plus_minus
from papers.calibrators.gains import Gain, adjusted, gain_without_zeros, sides
from papers.calibrators.numbers import means_of, multiclass
from papers.calibrators.settings import FOCAL, PLAIN, RIVALS
from papers.claims import OWN, Claim, below

SOURCE = "Komisarenko and Kull (2024), section 5.2"
OPEN = "left open by Komisarenko and Kull (2024)"
TITLES = {"nll": "NLL", "brier": "Brier score", "ece": "ECE"}
NAMES = {
    PLAIN: "temperature scaling",
    FOCAL: "focal temperature scaling",
    "vector": "vector scaling",
    "matrix": "matrix scaling",
    "structured-matrix": "structured matrix scaling",
}


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Focal temperature scaling against temperature, vector and matrix scaling."""
    sources = {"nll": OWN, "ece": SOURCE}  # of the NLL the paper says that both are about equal
    found = [_lower(exponent_gains(numbers, by), by, PLAIN, source) for by, source in sources.items()]
    for by in ("nll", "ece"):
        family = rival_gains(numbers, by)
        p_values = adjusted(family)
        for rival in RIVALS:
            mine = {name: each for name, each in family.items() if name[1] == rival}
            if mine:
                found.append(_lower(mine, by, rival, OPEN, p_values))
    return [*found, *_by_ece(numbers)]


def exponent_gains(numbers: Mapping[str, Any], measure: str) -> dict[str, Gain | None]:
    """Focal temperature scaling's gain over temperature scaling, file by file: one family."""
    return {name: gain_without_zeros(numbers, name, measure, PLAIN) for name in numbers["files"]}


def rival_gains(numbers: Mapping[str, Any], measure: str) -> dict[tuple[str, str], Gain | None]:
    """Its gain over vector and matrix scalings, by file and rival: one family."""
    return {
        (name, rival): gain_without_zeros(numbers, name, measure, rival)
        for name in multiclass(numbers)
        for rival in RIVALS
    }


def _lower(
    gains: Mapping[Any, Gain | None],
    measure: str,
    other: str,
    source: str,
    p_values: Mapping[Any, float] | None = None,
) -> Claim:
    found = sides(gains, p_values)
    return Claim(
        key=f"{other}, {measure}",
        source=source,
        statement=f"Wherever they differ beyond noise, focal temperature scaling has a lower "
        f"{TITLES[measure]} than {NAMES[other]}",
        verdict=found.verdict,
        evidence=f"its {TITLES[measure]} is lower on {found.above} of {found.all} files, higher on "
        f"{found.below}, and {found.neither} are undecided",
        arms=(FOCAL, other),
    )


def _by_ece(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Files are the samples; logarithms of ratios, so that it is the same whichever way it is asked."""
    by_ece = f'{FOCAL}(objective="ece")'
    pairs = [
        (means_of(found, by_ece).get("ece"), means_of(found, FOCAL).get("ece"))
        for found in numbers["files"].values()
    ]
    ratios = [math.log(one / other) for one, other in pairs if one and other]
    if not ratios:
        return
    found = mean_of(ratios)
    changes = sorted(100 * math.expm1(ratio) for ratio in ratios)
    yield Claim(
        key="by-ece",
        source=SOURCE,
        statement="Fitted by ECE instead of by NLL, focal temperature scaling has a lower ECE on held-out "
        "samples, on average over files",
        verdict=below(found),
        evidence=f"the ECE changes by {changes[0]:+.0f} to {changes[-1]:+.0f} %, {median(changes):+.0f} % at "
        f"the median; the logarithm of the ratio is {plus_minus(found, 2, signed=True)} on average, "
        f"n = {found.n} files",
        arms=(by_ece, FOCAL),
    )
