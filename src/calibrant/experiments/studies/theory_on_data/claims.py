"""Two statements on focal loss, held against real predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.experiments.claims import Claim, all_of, below, compared, within
from calibrant.experiments.means import mean_of, plus_minus
from calibrant.experiments.studies.losses.claims import nearer_to_one, of_long_tail
from calibrant.experiments.studies.theory_on_data.numbers import (
    by_network,
    from_one,
    many_classes,
    of_source,
)
from calibrant.experiments.studies.theory_on_data.settings import MARGIN, OWN_LONG_TAIL

SOURCE = "Komisarenko and Kull 2024"
ARMS = ("needed", "proper")


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim for which there are files or runs."""
    sources = dict.fromkeys(each["source"] for each in numbers["temperatures"])
    found = [_raised(numbers)] if many_classes(numbers) else []
    for source in sources:
        both = (_about_one(numbers, source), _nearer(numbers, source))
        found += map(of_long_tail, both) if source == OWN_LONG_TAIL else both
    return found


def _raised(numbers: Mapping[str, Any]) -> Claim:
    """A statement on all samples: one that is lowered refutes it."""
    many = many_classes(numbers)
    cases = [(at["lowered"], at["gamma"], each["name"]) for each in many for at in each["gammas"]]
    share, gamma, name = max(cases, key=lambda case: case[0])
    touched = len({case[2] for case in cases if case[0] > 0})
    fall = max(at["largest_fall"] for each in many for at in each["gammas"])
    evidence = f"no sample of the {len(many)} files with more than two classes is lowered"
    if touched:
        evidence = (
            f"lowered samples occur in {touched} of {len(many)} files with more than two classes, most in "
            f"`{name}` ({100 * share:.1f} % at γ = {gamma:g}); a top probability falls by {fall:.3f} at most"
        )
    return Claim(
        key="raised",
        source=f"{SOURCE}, proposition 5",
        statement="The focal calibration map always raises the top probability",
        verdict="does not hold" if touched else "holds",
        evidence=evidence,
    )


def _about_one(numbers: Mapping[str, Any], source: str) -> Claim:
    found = {name: mean_of(values) for name, values in _needed(numbers, source).items()}
    means = "; ".join(f"{plus_minus(each, 2)} with {name}, n = {each.n}" for name, each in found.items())
    return Claim(
        key=f"about-one, {source}",
        source=f"{SOURCE}, section 4.1",
        statement="The temperature that focal loss needs on new data is about 1, whatever its exponent",
        verdict=all_of(within(each, low=1 - MARGIN, high=1 + MARGIN) for each in found.values()),
        evidence=f"it is {means}; about 1 is {1 - MARGIN:g} to {1 + MARGIN:g}",
    )


def _needed(numbers: Mapping[str, Any], source: str) -> dict[str, list[float]]:
    """What focal loss needs: of our runs seed by seed; of single runs network by network."""
    found: dict[str, list[float]] = {}
    for row in of_source(numbers, source):
        single = len(row["needed"]) == 1
        name = f"γ = {row['gamma']:g}" + ("" if single else f" on {row['network']}")
        found.setdefault(name, []).extend(row["needed"])
    return found


def _nearer(numbers: Mapping[str, Any], source: str) -> Claim:
    """Networks are the samples, each seed another one: the rows of one share cross-entropy's temperature."""
    rows = of_source(numbers, source)
    networks = [
        [{name: [row[name][seed]] for name in ARMS} for row in group]
        for group in by_network(rows).values()
        for seed in range(min(len(row["proper"]) for row in group))
    ]
    focal, plain = (
        [mean_of([from_one(row[name]) for row in network]).value for network in networks] for name in ARMS
    )
    gap, said = compared(("focal loss", focal), ("cross-entropy", plain))
    nearer = sum(from_one(row["needed"]) < from_one(row["proper"]) for row in rows)
    claim = Claim(
        key=f"nearer, {source}",
        source=f"{SOURCE}, section 4.1",
        statement="Focal loss needs a temperature nearer to 1 than cross-entropy's",
        verdict=below(gap),
        evidence=f"it does in {nearer} of {len(rows)} rows; distance of log T from 0, mean over a network's "
        f"exponents: {said}, n = {gap.n} networks",
        arms=ARMS,
    )
    return nearer_to_one(claim, mean_of([row["proper"][0] for network in networks for row in network[:1]]))
