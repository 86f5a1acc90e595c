"""What the paper says of the weights of focal calibration loss, held against the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from papers.arms import ArmRuns
from papers.claims import OWN, Claim, Departure
from papers.fcl_weights.numbers import arms_of, boundaries_of
from papers.fcl_weights.settings import (
    GAMMAS,
    L1,
    PAPERS,
    PAPERS_GAMMA,
    TITLES,
    WEIGHTS,
    key_of,
)
from papers.losses.settings import FCL
from papers.paired import Asked, Quantity, in_words

BALANCE, NORMS, GAP, FASTER, SMOOTHER = (
    f"{FCL}, {where}"
    for where in ("section 5.5.2", "appendix A.15", "section 5.5.3", "section 5.5.1", "appendix A.11")
)
PINNED = Departure(
    verdict="depends on the schedule",
    what="Most trainings come near their least held-out NLL just after the learning rate drops; the paper's "
    "figure seems to show each loss's own test loss.",
)
EXPONENT = Departure(
    verdict="depends on the exponent",
    what="Our copy of the paper does not say which exponent its comparison of weights keeps fixed; here it "
    f"is γ = {PAPERS_GAMMA}, as in its figure 3, and answers differ by exponent.",
)
TUNED = Departure(
    verdict="depends on the tuning",
    what="Tables 4 to 7 of the paper compare FCL, with γ and λ chosen for each network (appendix A.10), with "
    "FLSD-53; here neither is chosen, and focal loss has FCL's exponent.",
)
EPOCHS = Quantity(pick=lambda run: run["epochs"], digits=1)
EARLY = Quantity(pick=lambda run: run["early"], digits=3)
LENGTH = Quantity(pick=lambda run: run["length"], digits=2)
LARGER = tuple(weight for weight in WEIGHTS if weight > PAPERS)
STAGES = ("before", "after")
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
    of_paper = gamma == PAPERS_GAMMA
    balance, less = (BALANCE, GAP) if of_paper else (OWN, OWN)
    errors = ERRORS if of_paper else {"ece": ERRORS["ece"]}

    def ask(key: str, weight: float, what: Quantity, statement: str) -> Iterator[Claim]:
        """That what is asked is lower with the paper's weight than with another."""
        open_ = (EXPONENT,) if of_paper else ()
        return Asked(key=key, source=balance, statement=statement, departures=open_).lower(
            papers, arms.get(key_of(gamma, weight)), what
        )

    for stage in STAGES:
        for error, title in errors.items():
            end = "" if error == "ece" else f"-{error}"
            what = metric(stage, error)
            yield from ask(
                f"ece-{stage}-{gamma}{end}",
                0.0,
                what,
                f"{begin} {title} than {plain} alone, {stage} temperature scaling",
            )
            for weight in LARGER:
                yield from ask(
                    f"too-much-{weight:g}-{stage}-{gamma}{end}",
                    weight,
                    what,
                    f"{begin} {title} than with λ = {weight:g}, {stage} temperature scaling",
                )
    nll, error_rate = metric("before", "nll"), metric("before", "error")
    yield from ask(f"nll-{gamma}", 0.0, nll, f"{begin} NLL than {plain} alone, before temperature scaling")
    for weight in LARGER if of_paper else ():
        yield from ask(
            f"larger-nll-{weight:g}-{gamma}",
            weight,
            nll,
            f"{begin} NLL than with λ = {weight:g}, before temperature scaling",
        )
        yield from ask(
            f"larger-error-{weight:g}-{gamma}", weight, error_rate, f"{begin} error than with λ = {weight:g}"
        )
    for error, title in errors.items():
        yield from Asked(
            key=f"gap-{error}-{gamma}",
            source=less,
            statement=f"Temperature scaling lowers the {title} of {name} less than that of {plain} alone",
            departures=(TUNED,) if of_paper else (),
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
