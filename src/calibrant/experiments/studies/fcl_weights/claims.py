"""What the paper says of the weights of focal calibration loss, held against the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from calibrant.experiments.arms import ArmRuns
from calibrant.experiments.claims import OWN, Claim, Departure
from calibrant.experiments.paired import Asked, Quantity, in_words
from calibrant.experiments.studies.fcl_weights.numbers import arms_of, boundaries_of
from calibrant.experiments.studies.fcl_weights.settings import (
    GAMMAS,
    L1,
    PAPERS,
    PAPERS_GAMMA,
    TITLES,
    WEIGHTS,
    key_of,
)
from calibrant.experiments.studies.losses.settings import FCL

BALANCE, NORMS, GAP, FASTER, SMOOTHER = (
    f"{FCL}, {where}"
    for where in ("section 5.5.2", "appendix A.15", "section 5.5.3", "section 5.5.1", "appendix A.11")
)
PINNED = Departure(
    verdict="depends on the schedule",
    what="Most trainings come near their least held-out NLL just after the learning rate drops; the paper's "
    "figure shows each loss's own test loss.",
)
EPOCHS = Quantity(pick=lambda run: run["epochs"], digits=1)
EARLY = Quantity(pick=lambda run: run["early"], digits=3)
LENGTH = Quantity(pick=lambda run: run["length"], digits=2)
LARGER = tuple(weight for weight in WEIGHTS if weight > PAPERS)
STAGES: Mapping[str, str] = {"before": "before", "after": "also after"}
ERRORS: Mapping[str, str] = {"ece": "ECE", "adaptive_ece": "adaptive ECE", "classwise_ece": "class-wise ECE"}
"""The errors of calibration that the paper compares weights by."""


def metric(stage: str, name: str) -> Quantity:
    """A metric before or after temperature scaling."""
    if name == "nll":
        return Quantity(pick=lambda run: run[stage][name], digits=3)
    return Quantity(pick=lambda run: run[stage][name], scale=100, unit=" %")


def post_gap(error: str) -> Quantity:
    """What temperature scaling takes from an error of calibration."""
    return Quantity(pick=lambda run: run["before"][error] - run["after"][error], scale=100, unit=" points")


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim for which three seeds are there."""
    arms = arms_of(numbers)
    return [
        *(claim for gamma in GAMMAS for claim in _of_gamma(gamma, arms)),
        *_norms(arms),
        *_faster(arms),
        *_boundaries(boundaries_of(numbers)),
    ]


def _of_gamma(gamma: int, arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    none, papers = (arms.get(key_of(gamma, weight)) for weight in (0.0, PAPERS))
    name, plain = (in_words(TITLES[key_of(gamma, weight)]) for weight in (PAPERS, 0.0))
    begin = f"{name[0].upper()}{name[1:]} has a lower"
    balance, less = (BALANCE, GAP) if gamma == PAPERS_GAMMA else (OWN, OWN)
    errors = ERRORS if gamma == PAPERS_GAMMA else {"ece": ERRORS["ece"]}
    for stage, when in STAGES.items():
        for error, title in errors.items():
            end = "" if error == "ece" else f"-{error}"
            what = metric(stage, error)
            yield from Asked(
                key=f"ece-{stage}-{gamma}{end}",
                source=balance,
                statement=f"{begin} {title} than {plain} alone, {when} temperature scaling",
            ).lower(papers, none, what)
            for weight in LARGER:
                yield from Asked(
                    key=f"too-much-{weight:g}-{stage}-{gamma}{end}",
                    source=balance,
                    statement=f"{begin} {title} than with λ = {weight:g}, {when} temperature scaling",
                ).lower(papers, arms.get(key_of(gamma, weight)), what)
    yield from Asked(
        key=f"nll-{gamma}",
        source=balance,
        statement=f"{begin} NLL than {plain} alone, before temperature scaling",
    ).lower(papers, none, metric("before", "nll"))
    for error, title in errors.items():
        yield from Asked(
            key=f"gap-{error}-{gamma}",
            source=less,
            statement=f"Temperature scaling lowers the {title} of {name} less than that of {plain} alone",
        ).lower(papers, none, post_gap(error))


def _norms(arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    squared, absolute = arms.get(key_of(3, PAPERS)), arms.get(key_of(3, PAPERS, L1))
    for stage, source in (("before", NORMS), ("after", OWN)):
        yield from Asked(
            key=f"l2-{stage}",
            source=source,
            statement=f"With γ = 3 and λ = {PAPERS:g} the squared distance has a lower ECE than L1, {stage} "
            "temperature scaling",
        ).lower(squared, absolute, metric(stage, "ece"))
    yield from Asked(
        key="l2-error",
        source=OWN,
        statement=f"With γ = 3 and λ = {PAPERS:g} the squared distance has a lower error than L1",
    ).lower(squared, absolute, metric("before", "error"))


def _faster(arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    """Whether FCL converges faster than cross-entropy and focal loss (figure 3)."""
    fcl, said = arms.get(key_of(3, PAPERS)), f"FCL (γ = 3, λ = {PAPERS:g})"
    for gamma in (0, 3):
        other, name = arms.get(key_of(gamma, 0.0)), in_words(TITLES[key_of(gamma, 0.0)])
        yield from Asked(
            key=f"epochs-{gamma}",
            source=FASTER,
            statement=f"{said} comes near its least held-out NLL in fewer epochs than {name}",
            departures=(PINNED,),
        ).lower(fcl, other, EPOCHS)
        yield from Asked(
            key=f"early-{gamma}",
            source=OWN,
            statement=f"Over the epochs before the rate drops {said} has a lower held-out NLL than {name}",
        ).lower(fcl, other, EARLY)


def _boundaries(arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    fcl, focal = arms.get("focal-calibration"), arms.get("focal")
    yield from Asked(
        key="boundary",
        source=OWN,
        statement="On half-moons FCL (γ = 10, λ = 1.5) has a shorter decision boundary than focal loss",
    ).lower(fcl, focal, LENGTH)
    yield from Asked(
        key="boundary-bends",
        source=SMOOTHER,
        statement="On half-moons FCL's decision boundary turns less in all than focal loss's",
    ).lower(fcl, focal, Quantity(pick=lambda run: run["turning"], digits=2))
