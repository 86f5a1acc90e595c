"""Two statements on focal loss, held against real predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from calibrant._math.means import Mean, mean_of, plus_minus
from papers.claims import Claim, below, compared, within
from papers.losses.left_open import about_one, nearer_to_one, of_long_tail
from papers.theory_on_data.numbers import (
    Row,
    about_one_key,
    from_one,
    many_classes,
    of_source,
)
from papers.theory_on_data.settings import ASKED, MARGIN, OWN_LONG_TAIL

SOURCE = "Komisarenko and Kull 2024"
ARMS = ("needed", "proper")


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim for which there are files or runs."""
    sources = dict.fromkeys(each["source"] for each in numbers["temperatures"])
    found = [_raised(numbers)] if many_classes(numbers) else []
    for source in sources:
        both = (*_about_one(numbers, source), _nearer(numbers, source))
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


def _about_one(numbers: Mapping[str, Any], source: str) -> Iterator[Claim]:
    """Asked of every exponent that the argument may mean."""
    for gamma in ASKED:
        rows = [row for row in of_source(numbers, source) if row["gamma"] == gamma]
        if not rows:
            continue
        found = mean_of(_by_unit(rows, lambda row, place: row["needed"][place]))
        claim = Claim(
            key=about_one_key(source, gamma),
            source=f"{SOURCE}, section 4.1",
            statement=f"The temperature that focal loss (γ = {gamma:g}) needs on new data is about 1",
            verdict=within(found, low=1 - MARGIN, high=1 + MARGIN),
            evidence=f"it is {plus_minus(found, 2)}, n = {found.n} {_units(rows)}; about 1 is "
            f"{1 - MARGIN:g} to {1 + MARGIN:g}",
        )
        yield about_one(claim, _proper(rows))


def _nearer(numbers: Mapping[str, Any], source: str) -> Claim:
    rows = of_source(numbers, source)
    focal, plain = (
        _by_unit(rows, lambda row, place, name=name: from_one([row[name][place]])) for name in ARMS
    )
    gap, said = compared(("focal loss", focal), ("cross-entropy", plain))
    nearer = sum(from_one(row["needed"]) < from_one(row["proper"]) for row in rows)
    claim = Claim(
        key=f"nearer, {source}",
        source=f"{SOURCE}, section 2",
        statement="Focal loss needs a temperature nearer to 1 than cross-entropy's",
        verdict=below(gap),
        evidence=f"it does in {nearer} of {len(rows)} rows; distance of log T from 0, mean over exponents: "
        f"{said}, n = {gap.n} {_units(rows)}",
        arms=ARMS,
    )
    return nearer_to_one(claim, _proper(rows))


def _by_unit(rows: Sequence[Row], pick: Callable[[Row, int], float]) -> list[float]:
    """Means over what counts once: a seed of a network, and single runs on one data set together.

    Args:
        rows: Temperatures of exponents and networks, run by run.
        pick: Reads what is averaged off a row, by the place of a run.
    """
    found: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        data = row["network"].rpartition(", ")[2]
        for place, seed in enumerate(row["seeds"]):
            found.setdefault((data, seed), []).append(pick(row, place))
    return [fmean(values) for values in found.values()]


def _units(rows: Sequence[Row]) -> str:
    return "seeds" if any(len(row["needed"]) > 1 for row in rows) else "data sets"


def _proper(rows: Sequence[Row]) -> Mean:
    """What cross-entropy needs."""
    return mean_of(_by_unit(rows, lambda row, place: row["proper"][place]))
