"""What the papers claim, asked of the only network with two classes, under both conventions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from calibrant.experiments.claims import OWN, Claim, all_of, below, compared, within
from calibrant.experiments.means import mean_of, paired_difference, plus_minus
from calibrant.experiments.paired import FEWEST_SEEDS, enough
from calibrant.experiments.printed_rows import SCALE
from calibrant.experiments.studies.losses.claims import (
    OF_IMAGES,
    asked,
    at_the_kept_epoch,
    row_question,
)
from calibrant.experiments.studies.losses.settings import FCL
from calibrant.experiments.studies.sst.numbers import arms_of, distances, ratios
from calibrant.experiments.studies.sst.settings import (
    CONVENTIONS,
    METRICS,
    RENORMALISED,
    ROW,
    STRUCK,
)

CODE = "the authors' code for SST"
KULL = "Komisarenko and Kull 2024, section 4.1, two classes"
MARGIN = 1.1
"""The factor within which a ratio of temperatures counts as the predicted one."""
_OF_ERROR = ("no-cost", "errs-", "smoothing-error")
"""How the keys of claims on the error begin, which is the same under both conventions."""


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Those of the study of losses under both conventions, of the conventions, and of the binary theory.

    Focal calibration loss, whose paper has no SST, is asked about by ECE and error alone, as a question of
    this project.
    """
    found: dict[str, Claim] = {}
    for convention in CONVENTIONS:
        for claim in asked(enough(arms_of(numbers, convention))):
            if claim.key.startswith(OF_IMAGES) or (
                convention == RENORMALISED and claim.key.startswith(_OF_ERROR)
            ):
                continue
            if claim.source == FCL and any(f"-{name}-" in claim.key for name in METRICS if name != "ece"):
                continue
            name = claim.key if convention == STRUCK else f"{claim.key}, {convention}"
            where = "as published" if convention == STRUCK else "renormalised"
            found[name] = replace(
                claim,
                key=name,
                source=OWN if claim.source == FCL else claim.source,  # its paper has no SST
                statement=f"{at_the_kept_epoch(claim)} ({where})",
                evidence=claim.evidence + ROW.said(numbers["published"], row_question(claim)),
            )
    return [*found.values(), *_convention(numbers), *_focal(numbers), *_theory(numbers)]


def _convention(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Losses are the samples: each is another training, theirs and ours."""
    for column, printed in enumerate(ROW.tables):
        if printed.metric not in {"NLL", "MCE", "ECE"} or printed.stage != "pre":
            continue
        ours = {name: distances(numbers, name, column) for name in CONVENTIONS}
        if len(ours[STRUCK]) < 2:
            continue
        gap, said = compared(
            *((name, list(ours[name].values())) for name in (STRUCK, RENORMALISED)), digits=1
        )
        yield Claim(
            key=f"convention, {printed.metric}",
            source=CODE,
            statement=f"The published {printed.title} lies nearer to ours with the neutral class struck out "
            "than renormalised",
            verdict=below(gap),
            evidence=f"distance from the published number, mean over losses: {said}, n = {gap.n} losses",
            arms=(STRUCK, RENORMALISED),
        )


def _focal(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Whether the convention makes focal loss look worse."""
    both = [enough(arms_of(numbers, name)).get("focal-3") for name in (RENORMALISED, STRUCK)]
    if None in both:
        return
    values = [[SCALE * run["stages"]["before"]["ece"] for run in arm.runs.values()] for arm in both if arm]
    gap = paired_difference(*values)
    yield Claim(
        key="convention-focal-3",
        source=OWN,
        statement="Focal loss with γ = 3 has the lower ECE where the two classes are renormalised",
        verdict=below(gap),
        evidence="; ".join(
            (
                f"{plus_minus(mean_of(values[0]), 1)} % renormalised",
                f"{plus_minus(mean_of(values[1]), 1)} % as published",
                f"difference {plus_minus(gap, 1, signed=True)} %, n = {gap.n}",
            )
        ),
        arms=(RENORMALISED, STRUCK),
    )


def _theory(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    for convention, where in ((RENORMALISED, "renormalised"), (STRUCK, "as published")):
        rows = [(row, ratios(numbers, convention, row["gamma"])) for row in numbers["theory"]]
        known = [(row, [each / row["binary"] for each in found]) for row, found in rows]
        if any(len(found) < FEWEST_SEEDS for _, found in known):
            continue
        said = "; ".join(
            f"γ = {row['gamma']:g}: {plus_minus(mean_of([each * row['binary'] for each in found]), 2)} where "
            f"{row['binary']:.2f} is predicted"
            for row, found in known
        )
        yield Claim(
            key=f"binary-theory, {convention}",
            source=KULL,
            statement="Focal loss needs cross-entropy's temperature times that of the binary focal map, "
            f"within a factor of {MARGIN:g} ({where})",
            verdict=all_of(within(mean_of(found), low=1 / MARGIN, high=MARGIN) for _, found in known),
            evidence=f"focal loss's temperature over cross-entropy's: {said}; n = {len(known[0][1])} seeds",
        )
