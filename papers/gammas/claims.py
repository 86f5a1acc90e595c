"""What Komisarenko and Kull (2024) say of networks, held against the runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from calibrant._math.means import Mean, mean_of, plus_minus
from papers.arms import ArmRuns, Pick, Run, shared
from papers.claims import NOT_CLAIMED, OWN, Claim, above, within
from papers.gammas.numbers import of_size, rows_of
from papers.gammas.settings import (
    CALIBRATED,
    FOCAL,
    GAINS,
    GAINS_OF_THEIRS,
    LOWEST,
    OBJECTIVES,
    OF_SIZES,
    ROWS_SIZE,
    SAME,
    SEPARATED,
    SIZES,
    TITLES,
    Criterion,
)
from papers.losses.left_open import nearer_to_one
from papers.losses.settings import BY_DESIGN, KULL
from papers.paired import FEWEST_SEEDS, Asked, Quantity, in_words

CE = "cross-entropy"
NAMES = {key: in_words(title) for key, title in TITLES.items()}
RELATED, COMPENSATED, NEARER = (f"{KULL}, section {number}" for number in ("5.2", "4.1", "2"))


def chosen(method: str, objective: str, name: str) -> Quantity:
    """A number after a method chosen by an objective."""
    stage = f"{method}-{objective}"
    if name == "adaptive_ece":
        return Quantity(pick=lambda run: run[stage][name], scale=100, unit=" %")
    return Quantity(pick=lambda run: run[stage][name], digits=3)


def side(part: str, name: str) -> Quantity:
    """A number on training images (``train``) or new ones (``new``)."""
    if name in {"temperature", "nll"}:
        return Quantity(pick=lambda run: run[part][name], digits=3)
    return Quantity(pick=lambda run: run[part][name], scale=100, unit=" %")


ERROR = Quantity(pick=lambda run: run["error"], scale=100, unit=" %")
SCALED = chosen("temperature", "adaptive_ece", "adaptive_ece")
FALLING = tuple(FOCAL)
_NONE = ArmRuns(key="", title="", runs={})


def _log(temperature: float) -> float:
    return math.log(max(temperature, LOWEST))


COMPENSATION = Quantity(
    pick=lambda run: _log(run["new"]["temperature"]) - _log(run["train"]["temperature"]),
    digits=3,
    said="log ratio",
)
"""By which factor training and new images need other temperatures, as a logarithm."""
GAP = Quantity(pick=lambda run: run["new"]["gap"] - run["train"]["gap"], scale=100, unit=" points")
"""How much more confidence exceeds accuracy on new images than on training images."""
PARTS: Mapping[str, str] = {"train": "training images", "new": "new images"}
"""What a run is measured on, and what a sentence calls it."""
FROM_ONE = Quantity(pick=lambda run: abs(_log(run["new"]["temperature"])), digits=3, said="|log T|")


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Those of table 1, then those of section 4.1 by number of images."""
    closest = numbers.get("closest", {})
    sizes = [claim for size in SIZES for claim in by_size(size, of_size(numbers, size), closest)]
    return [*_of_rows(rows_of(numbers)), *sizes]


def _of_rows(arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    for key, arm in arms.items():
        for objective, title in OBJECTIVES.items():
            focal, plain, other = (
                chosen(method, by, objective)
                for method, by in (
                    ("focal", objective),
                    ("temperature", objective),
                    ("temperature", next(each for each in OBJECTIVES if each != objective)),
                )
            )
            yield from _lower_within(
                f"focal-temperature-{key}-{objective}",
                f"After {NAMES[key]}, focal temperature scaling chosen by {title} has a lower {title} on "
                "test images than temperature scaling",
                arm,
                focal,
                plain,
                source=NOT_CLAIMED if objective == "nll" else RELATED,
            )
            yield from _lower_within(
                f"criterion-{key}-{objective}",
                f"After {NAMES[key]}, a temperature chosen by {title} gives a lower {title} on test images "
                "than one chosen by the other criterion",
                arm,
                plain,
                other,
                source=RELATED if objective == "nll" else OWN,  # "consistent", and "in average"
                beside=f"; the paper has about {100 * GAINS[objective]:.0f} % less on average",
            )
    yield from (claim for objective in OBJECTIVES for claim in _gain(objective, arms))
    for less, more in pairwise((CE, *FALLING)):
        statement = f"The likeliest temperature is lower after {NAMES[more]} than after {NAMES[less]}"
        asked = Asked(key=f"falls-{more}", source=RELATED, statement=statement)
        yield from asked.lower(arms.get(more), arms.get(less), chosen("temperature", "nll", "T"))
    ends = (FALLING[0], FALLING[-1])
    for less, more in (*pairwise(FALLING), ends):
        key = "ends" if (less, more) == ends else more
        statement = f"{NAMES[more].capitalize()} has a higher error than {NAMES[less]}"
        asked = Asked(key=f"error-{key}", source=RELATED, statement=statement)
        yield from asked.higher(arms.get(more), arms.get(less), ERROR)
        statement = (
            f"After temperature scaling chosen by AdaECE {NAMES[more]} has a lower AdaECE than {NAMES[less]}"
        )
        asked = Asked(key=f"ece-{key}", source=RELATED, statement=statement)
        yield from asked.lower(arms.get(more), arms.get(less), SCALED)


def _other(objective: Criterion) -> Criterion:
    return "nll" if objective == "adaptive_ece" else "adaptive_ece"


def relative_gain(objective: Criterion, arms: Mapping[str, ArmRuns]) -> Mean | None:
    """By what share a temperature chosen by what is judged lowers it, on average over the losses.

    The other temperature is chosen by the other criterion. One value for each seed that all losses have; None
    without any.
    """
    first, second = (chosen("temperature", by, objective).pick for by in (objective, _other(objective)))
    seeds = [seed for seed in arms.get(CE, _NONE).runs if all(seed in arm.runs for arm in arms.values())]
    shares = [[1 - first(arm.runs[seed]) / second(arm.runs[seed]) for arm in arms.values()] for seed in seeds]
    return mean_of([mean_of(each).value for each in shares]) if seeds else None


def _gain(objective: Criterion, arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    found, least, title = relative_gain(objective, arms), GAINS[objective], OBJECTIVES[objective]
    if found is None or found.n < FEWEST_SEEDS or len(arms) < len(TITLES):
        return  # the paper's average is over all its losses
    yield Claim(
        key=f"gain-{objective}",
        source=RELATED,
        statement=f"On average over the losses, choosing a temperature by {title} lowers the {title} on test "
        f"images by {100 * least:.0f} % or more, against choosing it by {OBJECTIVES[_other(objective)]}",
        verdict=above(found, least),
        evidence=f"by {plus_minus(found, 1, 100)} %, mean over {len(arms)} losses, n = {found.n}",
        departures=(GAINS_OF_THEIRS,),
    )


def _lower_within(
    key: str,
    statement: str,
    arm: ArmRuns,
    first: Quantity,
    second: Quantity,
    *,
    source: str = RELATED,
    beside: str = "",
) -> Iterator[Claim]:
    """That the first number of each run is below its second; ``beside`` ends the evidence."""

    def gap(run: Run) -> float:
        return first.pick(run) - second.pick(run)

    asked = Asked(key=key, source=source, statement=statement)
    what = Quantity(pick=gap, digits=first.digits + 1, scale=first.scale, unit=first.unit)
    for claim in asked.between(arm, what, high=0.0):
        share = arm.mean(gap).value / arm.mean(second.pick).value
        yield replace(claim, evidence=f"difference {claim.evidence} ({100 * share:+.1f} % of it){beside}")


def separated(arm: ArmRuns) -> bool:
    """Whether in some run every training image is right, so that no temperature is likeliest."""
    return any(run["train"]["temperature"] <= SEPARATED for run in arm.runs.values())


def _errs(arm: ArmRuns | None) -> ArmRuns | None:
    """The arm, unless it is separated: every confidence below 1 is then under-confident, under any loss."""
    return None if arm is None or separated(arm) else arm


def by_size(
    size: int, arms: Mapping[str, ArmRuns], closest: Mapping[str, float] | None = None
) -> Iterator[Claim]:
    """Those of section 4.1, of networks with so many training images.

    Args:
        size: How many.
        arms: The losses, by key.
        closest: The temperature closest to the focal map, by exponent; without it nothing is asked of it.
    """
    where = f"with {size:,} training images"

    def ask(key: str, statement: str, source: str = COMPENSATED) -> Asked:
        return Asked(key=f"{key}-{size}", source=source, statement=f"{statement}, {where}")

    plain = arms.get(CE)
    yield from ask(
        "calibrated", "Cross-entropy is calibrated on its training images, to a percentage point"
    ).between(_errs(plain), side("train", "gap"), low=-CALIBRATED, high=CALIBRATED)
    above_one = ask("above-one", "Cross-entropy needs a temperature above 1 on new images")
    if size <= ROWS_SIZE:  # fewer images are the same design, and more of it
        above_one = replace(above_one, departures=(BY_DESIGN,))
    yield from above_one.between(plain, side("new", "temperature"), low=1.0)
    for key in OF_SIZES[1:]:
        arm, title = arms.get(key), NAMES[key]
        yield from ask(
            f"under-{key}", f"{title.capitalize()} is under-confident on its training images"
        ).between(_errs(arm), side("train", "gap"), high=0.0)
        nearer = ask(
            f"nearer-{key}",
            f"{title.capitalize()} needs a temperature nearer to 1 on new images than cross-entropy",
            NEARER,
        )
        for claim in nearer.lower(arm, plain, FROM_ONE):
            yield nearer_to_one(claim, plain.mean(side("new", "temperature").pick)) if plain else claim
        if arm is None or plain is None:
            continue
        asked = ask(
            f"same-gap-{key}",
            f"From training to new images the excess of confidence grows as much after {title} as after "
            "cross-entropy, to a tenth of it",
            OWN,
        )
        yield from _same_share(asked, arm, plain, GAP)
        learnt = separated(arm) or separated(plain)
        if not learnt:
            asked = ask(
                f"same-ratio-{key}",
                f"The ratio of the temperatures of new and training images is the same after {title} as "
                "after cross-entropy, its logarithm to a tenth",
            )
            yield from _same_share(asked, arm, plain, COMPENSATION)
        for part, images in PARTS.items():
            if not closest or (part == "train" and learnt):
                continue
            asked = ask(
                f"fixed-{part}-{key}",
                f"On {images} the temperature after {title} is that after cross-entropy times the one "
                "closest to its focal map, to ten per cent",
            )
            yield from _same_share(asked, arm, plain, side(part, "temperature"), closest[str(FOCAL[key])])


def shares(arm: ArmRuns, plain: ArmRuns, pick: Pick) -> list[float]:
    """A number of one arm as shares of another's, over the seeds of both; equal numbers are one share."""
    first, second = (map(pick, each.runs.values()) for each in shared(arm, plain))
    return [1.0 if one == other else one / other for one, other in zip(first, second, strict=True)]


def _same_share(
    asked: Asked, arm: ArmRuns, plain: ArmRuns, what: Quantity, factor: float = 1.0
) -> Iterator[Claim]:
    """That a number is cross-entropy's times a factor, to a tenth of that."""
    found = shares(arm, plain, what.pick)
    if len(found) < FEWEST_SEEDS:
        return
    gap = mean_of([share / factor - 1 for share in found])
    values = "; ".join(f"{each.title}: {what.shown(each.mean(what.pick))}" for each in shared(arm, plain))
    times = "" if factor == 1 else f" times {factor:.3f}"
    yield Claim(
        key=asked.key,
        source=asked.source,
        statement=asked.statement,
        verdict=within(gap, low=-SAME, high=SAME),
        evidence=f"{f'{what.said} – ' if what.said else ''}{values}; relative to cross-entropy's{times}: "
        f"{plus_minus(gap, 1, 100, signed=True)} %, n = {gap.n}",
    )
