"""What the papers claim, each asked with the reduction of its own code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from calibrant.experiments.arms import difference
from calibrant.experiments.claims import NOT_CLAIMED, OWN, PRACTICE, Claim, below
from calibrant.experiments.paired import Asked, Quantity, in_words
from calibrant.experiments.studies.cifar10.numbers import arms_of
from calibrant.experiments.studies.cifar10.settings import FOREIGN, MEAN, SUM, TITLES, WAYS
from calibrant.experiments.studies.gammas.claims import claims as claims_of_exponents
from calibrant.experiments.studies.losses.claims import asked
from calibrant.experiments.studies.losses.settings import FCL
from calibrant.experiments.studies.shift.numbers import auroc, foreign_sets
from calibrant.experiments.studies.shift.settings import AS_TRAINED, PAPER_FCL

AVERAGED = frozenset({"brier", "mmce-published"})
"""Losses that the code of Mukhoti et al. for images averages over the batch where it sums the others."""
_WITHOUT = ("norms-", "focal-temperature-")
"""How keys begin of claims with epochs of another schedule, and of those that exponents ask."""
_BETWEEN = {
    "ece": Quantity(pick=lambda run: run["stages"]["before"]["ece"], scale=100, unit=" %"),
    "temperature": Quantity(pick=lambda run: run["parameters"]["temperature"], digits=3),
    "error": Quantity(pick=lambda run: run["stages"]["before"]["error"], scale=100, unit=" %"),
}


_PEOPLE = Quantity(pick=lambda run: run["people"]["temperature"]["nll"], digits=4)
_PEOPLE_GAIN = Quantity(
    pick=lambda run: run["people"]["focal-temperature"]["nll"] - run["people"]["temperature"]["nll"], digits=4
)


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Those of losses, then of exponents, then of the two reductions."""
    return [
        *_of_losses(numbers),
        *claims_of_exponents(numbers["exponents"]),
        *_between(numbers),
        *_tells(numbers),
        *_people(numbers),
    ]


def _of_losses(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    summed, means = (arms_of(numbers, way, enough=True) for way in (SUM, MEAN))
    averaged = {
        key: replace(arm, title=f"{arm.title}, averaged") for key, arm in means.items() if key in AVERAGED
    }
    for way, arms in ((SUM, {**summed, **averaged}), (MEAN, means)):
        for claim in asked(arms):
            mine = (claim.source == FCL) == (way == MEAN)
            if claim.source in {OWN, PRACTICE} or not mine or claim.key.startswith(_WITHOUT):
                continue
            mixed = way == SUM and not AVERAGED.isdisjoint(claim.arms)
            yield replace(
                claim,
                statement=f"{claim.statement} (with the {way})",
                arms=() if mixed else claim.arms,  # arms of two reductions do not exchange
            )


def _between(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Whether the sum changes what focal loss does, as it does on Fashion-MNIST."""
    summed, means = (arms_of(numbers, way, enough=True) for way in (SUM, MEAN))
    for key, name, first, second in (
        ("cross-entropy", "temperature", MEAN, SUM),
        ("cross-entropy", "ece", MEAN, SUM),
        ("focal-3", "temperature", MEAN, SUM),
        ("focal-3", "ece", SUM, MEAN),
        ("focal-3", "error", MEAN, SUM),
    ):
        of_way = {SUM: summed.get(key), MEAN: means.get(key)}
        one, other = of_way[first], of_way[second]
        if one is None or other is None:
            continue
        what = _BETWEEN[name]
        gap = difference(one, other, what.pick)
        if gap is None:
            continue
        called = {"ece": "ECE", "temperature": "temperature", "error": "error"}[name]
        yield Claim(
            key=f"{key}-{name}-{first}-{second}",
            source=OWN,
            statement=f"After {one.title} the {called} is lower with the {first} than with the {second}",
            verdict=below(gap),
            evidence=f"{what.shown(one.mean(what.pick))} and {what.shown(other.mean(what.pick))}; "
            f"difference {what.shown(gap, signed=True)}, n = {gap.n}",
            arms=(first, second),
        )
    for way, arms in ((SUM, summed), (MEAN, means)):
        asked_of = Asked(
            key=f"focal-lower-{way}",
            source=OWN,
            statement=f"Focal loss (γ = 3) needs a lower temperature than cross-entropy, both with the {way}",
        )
        yield from asked_of.lower(arms.get("focal-3"), arms.get("cross-entropy"), _BETWEEN["temperature"])


def _tells(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Whether FCL tells foreign images better, by the top probability, as trained."""
    arms = arms_of(numbers, MEAN, enough=True)
    for foreign, title in foreign_sets(FOREIGN).items():
        what = Quantity(pick=lambda run, foreign=foreign: auroc(run["shift"], foreign, AS_TRAINED), scale=100)
        for key, other in arms.items():
            if key == "focal-calibration" or "focal-calibration" not in arms:
                continue
            asked_of = Asked(
                key=f"foreign-{foreign}-{key}",
                source=OWN if key == "focal-3" else PAPER_FCL,
                statement=f"FCL tells {title} from test images better than {in_words(other.title)} (AUROC of "
                "the top probability, as trained)",
            )
            # Claimed larger, so the other's is claimed to lie below.
            yield from asked_of.lower(other, arms["focal-calibration"], what)


def _people(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Whether a repair, or a loss, brings the probabilities nearer to people's."""
    for way in WAYS:
        arms = arms_of(numbers, way, enough=True)
        for key in ("cross-entropy", "focal-3"):
            asked_of = Asked(
                key=f"people-focal-temperature-{key}-{way}",
                source=NOT_CLAIMED,
                statement=f"After {in_words(TITLES[key])} with the {way}, focal temperature scaling comes "
                "nearer to people than temperature scaling (NLL of their shares)",
            )
            yield from asked_of.between(arms.get(key), _PEOPLE_GAIN, high=0.0)
        for key in ("focal-3", "sample-focal", "focal-calibration", "brier"):
            asked_of = Asked(
                key=f"people-{key}-{way}",
                source=NOT_CLAIMED,
                statement=f"With the {way}, {in_words(TITLES[key])} comes nearer to people than "
                "cross-entropy, both after temperature scaling (NLL of their shares)",
            )
            yield from asked_of.lower(arms.get(key), arms.get("cross-entropy"), _PEOPLE)
