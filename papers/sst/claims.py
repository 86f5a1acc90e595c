"""What the papers claim, asked of the only network with two classes, under both conventions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from calibrant._math.means import mean_of, paired_difference, plus_minus
from papers.arms import shared
from papers.claims import OWN, Claim, all_of, below, compared, within
from papers.losses.claims import (
    OF_IMAGES,
    asked,
    at_the_kept_epoch,
    row_question,
)
from papers.losses.comparisons import Arms, Below
from papers.losses.settings import FCL, KULL, MUKHOTI
from papers.paired import FEWEST_SEEDS, Asked, Quantity, enough
from papers.printed_rows import SCALE
from papers.sst.numbers import arms_of, distances, num_epochs, ratios, ratios_at
from papers.sst.settings import (
    CONVENTIONS,
    MARGIN,
    METRICS,
    NO_GAIN,
    OTHER_CONVENTION,
    OTHER_EPOCHS,
    RENORMALISED,
    ROW,
    STRUCK,
    THREE_CLASSES,
)

THEORY = "Komisarenko and Kull 2024, section 4.1 (the factor is this project's)"
ONE_TEMPERATURE = "Komisarenko and Kull 2024, section 3.2 (the margin is this project's)"
SAME_EPOCH, LAST_EPOCH = "binary-theory, same-epoch", "binary-theory, last-epoch"
_OF_ERROR = ("no-cost", "errs-", "smoothing-error")
"""How the keys of claims on the error begin, which is the same under both conventions."""
_OF_TABLES = "(tables only) "
"""How statements begin that the paper on FCL, which has no SST, makes by its tables alone."""
_FOCAL_BEFORE = Below(
    "focal-3-ece-before",
    f"{MUKHOTI}, introduction",
    "Focal loss (γ = 3) has a lower {metric} than {second}, {when}",
    "focal-3",
    "cross-entropy",
    "before",
    "ece",
)


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Those of the study of losses under both conventions, of the conventions, and of the binary theory.

    Focal calibration loss, whose paper has no SST, is asked about by ECE and error alone, as a question of
    this project. So is whether focal temperature scaling gains ECE with two classes, where its paper sees
    nearly one temperature.
    """
    found: dict[str, Claim] = {}
    for convention in CONVENTIONS:
        arms = enough(arms_of(numbers, convention))
        for claim in [*asked(arms), *_FOCAL_BEFORE(arms), *_criterion(arms)]:
            if claim.key.startswith(OF_IMAGES) or (
                convention == RENORMALISED and claim.key.startswith(_OF_ERROR)
            ):
                continue
            of_fcl = claim.key.startswith(("fcl-", "after-fcl-"))
            if of_fcl and any(f"-{name}-" in claim.key for name in METRICS if name != "ece"):
                continue
            name = claim.key if convention == STRUCK else f"{claim.key}, {convention}"
            where = "as published" if convention == STRUCK else "renormalised"
            two_classes = convention == RENORMALISED and claim.source == KULL
            other = convention == RENORMALISED and claim.source.startswith(MUKHOTI)
            question = ("ECE", "pre", claim.arms) if claim.key == _FOCAL_BEFORE.key else row_question(claim)
            found[name] = replace(
                claim,
                key=name,
                source=OWN if claim.source == FCL or two_classes else claim.source,
                statement=f"{at_the_kept_epoch(claim).removeprefix(_OF_TABLES)} ({where})",
                evidence=claim.evidence + ROW.said(numbers["published"], question),
                departures=() if two_classes else (*claim.departures, *[OTHER_CONVENTION] * other),
            )
    return [*found.values(), *_no_gain(numbers), *_convention(numbers), *_focal(numbers), *_theory(numbers)]


def _criterion(arms: Arms) -> Iterator[Claim]:
    """Losses share seeds and sentences, so the seeds are the samples."""
    if not arms:
        return
    stages = {"by-ece": "T by ECE", "temperature": "T by likelihood"}
    common = shared(*arms.values())
    by_seed = {
        stage: [fmean(arm.runs[seed]["stages"][stage]["ece"] for arm in common) for seed in common[0].runs]
        for stage in stages
    }
    if len(common[0].runs) < FEWEST_SEEDS:
        return
    gap, said = compared(*((stages[stage], by_seed[stage]) for stage in stages), scale=SCALE, unit=" %")
    yield Claim(
        key="criterion-ece",
        source=MUKHOTI,
        statement="A temperature chosen by ECE gives a lower ECE than one fitted by likelihood",
        verdict=below(gap),
        evidence=f"mean over {len(common)} losses: {said} %, n = {gap.n}",
        arms=(*stages,),
    )


def _no_gain(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """With two classes the focal map is nearly a temperature, so that γ has little left to fit."""
    arms = arms_of(numbers, RENORMALISED)
    change = Quantity(
        pick=lambda run: run["stages"]["focal-temperature"]["nll"] - run["stages"]["temperature"]["nll"],
        digits=4,
    )
    for key in ("cross-entropy", "focal-3"):
        if key in arms:
            yield from Asked(
                key=f"two-classes-{key}",
                source=ONE_TEMPERATURE,
                statement=f"After {arms[key].title}, focal temperature scaling of two classes has the NLL of "
                f"temperature scaling, to within {NO_GAIN:g} (renormalised)",
            ).between(arms[key], change, low=-NO_GAIN, high=NO_GAIN)


def _convention(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Losses share seeds and sentences, so the seeds are the samples."""
    for column, printed in enumerate(ROW.tables):
        if printed.metric not in {"NLL", "MCE", "ECE"} or printed.stage != "pre":
            continue
        found = {name: distances(numbers, name, column) for name in CONVENTIONS}
        losses, values = found[STRUCK]
        if losses < 2 or len(values) < FEWEST_SEEDS:
            continue
        gap, said = compared(*((name, found[name][1]) for name in (STRUCK, RENORMALISED)), digits=1)
        yield Claim(
            key=f"convention, {printed.metric}",
            source=OWN,
            statement=f"The published {printed.title} lies nearer to ours with the neutral class struck out "
            "than renormalised",
            verdict=below(gap),
            evidence=f"distance from the published number, mean over {losses} losses: {said}, n = {gap.n}",
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
    """At equal epochs, where the ratio is of networks trained alike, and at the epochs that are kept."""
    last = num_epochs(numbers)
    gammas = [row["gamma"] for row in numbers["theory"]]
    asked_of = {
        SAME_EPOCH: (
            "both after the epoch kept for focal loss, renormalised, T by likelihood",
            [ratios_at(numbers, gamma) for gamma in gammas],
        ),
        LAST_EPOCH: (
            "both after the last epoch, renormalised, T by likelihood",
            [ratios_at(numbers, gamma, last) for gamma in gammas],
        ),
    }
    for convention, where in ((RENORMALISED, "renormalised"), (STRUCK, "as published")):
        for end, name, how in (("", "temperature", "likelihood"), (", ece", "ece_temperature", "ECE")):
            asked_of[f"binary-theory, {convention}{end}"] = (
                f"each at its kept epoch, {where}, T by {how}",
                [ratios(numbers, convention, gamma, name) for gamma in gammas],
            )
    for key, (when, found) in asked_of.items():
        if any(len(each) < FEWEST_SEEDS for each in found):
            continue
        pairs = [*zip(numbers["theory"], found, strict=True)]
        said = "; ".join(
            f"γ = {row['gamma']:g}: {plus_minus(mean_of(each), 2)} where {row['binary']:.2f} is predicted"
            for row, each in pairs
        )
        kept = key not in {SAME_EPOCH, LAST_EPOCH}
        yield Claim(
            key=key,
            source=THEORY,
            statement="Focal loss's best temperature is cross-entropy's times T(γ), that of the binary focal "
            f"map, within a factor of {MARGIN:g} ({when})",
            verdict=all_of(
                within(mean_of([one / row["binary"] for one in each]), low=1 / MARGIN, high=MARGIN)
                for row, each in pairs
            ),
            evidence=f"focal loss's temperature over cross-entropy's: {said}; n = {len(found[0])}",
            departures=(THREE_CLASSES, OTHER_EPOCHS) if kept else (THREE_CLASSES,),
        )
