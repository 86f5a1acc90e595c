"""What the papers claim, each asked with the reduction of its own code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from papers.cifar10.numbers import arms_of
from papers.cifar10.settings import (
    CORRUPTIONS,
    FOREIGN,
    LOSSES,
    NO_DECAY,
    STEPS,
    TITLES,
    WAYS,
)
from papers.claims import NOT_CLAIMED, OWN, PRACTICE, Claim
from papers.gammas.claims import by_size
from papers.gammas.claims import claims as claims_of_exponents
from papers.gammas.settings import ROWS_SIZE
from papers.losses.claims import asked
from papers.losses.left_open import by_design
from papers.losses.settings import FCL
from papers.paired import Asked, Quantity, enough, in_words
from papers.shift.claims import in_table
from papers.shift.numbers import auroc, foreign_sets
from papers.shift.settings import AS_TRAINED
from papers.sum_or_mean.claims import (
    AVERAGED,
    NAMES,
    QUANTITIES,
    as_authors,
    at_equal_steps,
    between,
)
from papers.sum_or_mean.settings import LONG, MEAN, SLOW, STEP, SUM

_WITHOUT = ("norms-", "focal-temperature-")
"""How keys begin of claims with epochs of another schedule, and of those that exponents ask."""
_BETWEEN = (
    ("cross-entropy", MEAN, SUM, "temperature"),
    ("cross-entropy", MEAN, SUM, "ece"),
    ("focal-3", MEAN, SUM, "temperature"),
    ("focal-3", SUM, MEAN, "ece"),
    ("focal-3", MEAN, SUM, "error"),
    ("cross-entropy", STEP, SUM, "temperature"),
    ("focal-3", LONG, SUM, "temperature"),
    ("focal-3", LONG, MEAN, "ece"),
    ("cross-entropy", SLOW, MEAN, "temperature"),
    ("cross-entropy", SLOW, MEAN, "ece"),
)
_PEOPLE = Quantity(pick=lambda run: run["people"]["temperature"]["nll"], digits=4)
_PEOPLE_GAIN = Quantity(
    pick=lambda run: run["people"]["focal-temperature"]["nll"] - run["people"]["temperature"]["nll"], digits=4
)


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Those of losses, then of exponents, then of steps."""
    return [
        *map(by_design, _of_losses(numbers)),
        *_of_exponents(numbers),
        *_of_steps(numbers),
        *_tells(numbers),
        *_people(numbers),
    ]


def _of_exponents(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Table 1 and section 4.1 with the sum, then section 4.1 with the mean."""
    for claim in claims_of_exponents({**numbers["exponents"], "closest": numbers["closest"]}):
        yield replace(claim, statement=f"{claim.statement} (with the {SUM})")
    for claim in by_size(ROWS_SIZE, enough(arms_of(numbers, MEAN)), numbers["closest"]):
        key, statement = f"{claim.key}-{MEAN}", f"{claim.statement} (with the {MEAN})"
        yield replace(claim, key=key, statement=statement)


def _of_losses(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    summed, means = (enough(arms_of(numbers, way)) for way in (SUM, MEAN))
    for way, arms in ((SUM, as_authors(summed, means)), (MEAN, means)):
        for claim in asked(arms):
            of_fcl = claim.source == FCL or "focal-calibration" in claim.arms
            mine = of_fcl == (way == MEAN)
            if claim.source == PRACTICE or not mine or claim.key.startswith(_WITHOUT):
                continue
            mixed = way == SUM and not AVERAGED.isdisjoint(claim.arms)
            yield replace(
                claim,
                statement=f"{claim.statement} (with the {way})",
                arms=() if mixed else claim.arms,  # arms of two reductions do not exchange
            )


def _of_steps(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Whether what focal loss does is a matter of how the loss becomes a step, as asked on Fashion-MNIST."""
    ways = {way: arms_of(numbers, way) for way in STEPS}
    titles = {way: step.title for way, step in STEPS.items()}
    yield from at_equal_steps(ways, titles)
    yield from between(ways, _BETWEEN, titles)
    for way in (MEAN, STEP):
        arms = enough(ways[way])
        for name in ("temperature", "ece"):
            asked_of = Asked(
                key=f"{name}, {way}",
                source=OWN,
                statement=f"After focal loss (γ = 3) the {NAMES[name]} is lower than after cross-entropy, "
                f"both with the {titles[way]}",
            )
            yield from asked_of.lower(arms.get("focal-3"), arms.get("cross-entropy"), QUANTITIES[name])


def _tells(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Whether FCL tells foreign images better, by the top probability, as trained."""
    arms = enough(arms_of(numbers, MEAN))
    for foreign, title in foreign_sets(len(CORRUPTIONS), FOREIGN).items():
        what = Quantity(pick=lambda run, foreign=foreign: auroc(run["shift"], foreign, AS_TRAINED), scale=100)
        for key, other in arms.items():
            if key == "focal-calibration" or "focal-calibration" not in arms:
                continue
            # The cross-entropy of the table has weight decay.
            source, of_table = (OWN, "") if key == NO_DECAY else in_table(LOSSES[key][0], foreign)
            asked_of = Asked(
                key=f"foreign-{foreign}-{key}",
                source=source,
                statement=f"FCL tells {title} from test images better than {in_words(other.title)} (AUROC of "
                "the top probability, as trained)",
            )
            for claim in asked_of.higher(arms["focal-calibration"], other, what):
                yield replace(claim, evidence=claim.evidence + of_table)


def _people(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    """Whether a repair, or a loss, brings the probabilities nearer to people's."""
    for way in WAYS:
        arms = enough(arms_of(numbers, way))
        for key in ("cross-entropy", "focal-3"):
            asked_of = Asked(
                key=f"people-focal-temperature-{key}-{way}",
                source=NOT_CLAIMED,
                statement=f"After {in_words(TITLES[key])}, focal temperature scaling comes nearer to people "
                f"than temperature scaling, by the NLL of their shares (with the {way})",
            )
            yield from asked_of.between(arms.get(key), _PEOPLE_GAIN, high=0.0)
        for key in ("focal-3", "sample-focal", "focal-calibration", "brier"):
            asked_of = Asked(
                key=f"people-{key}-{way}",
                source=NOT_CLAIMED,
                statement=f"After temperature scaling {in_words(TITLES[key])} comes nearer to people than "
                f"cross-entropy, by the NLL of their shares (with the {way})",
            )
            yield from asked_of.lower(arms.get(key), arms.get("cross-entropy"), _PEOPLE)
