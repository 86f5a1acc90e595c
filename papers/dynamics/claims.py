"""What Mukhoti et al. (2020) say of a training's course, held against the runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant._math.means import Mean, plus_minus
from papers.arms import ArmRuns, Pick, Run, difference, shared
from papers.claims import OWN, Claim, Departure, all_of, below
from papers.dynamics.numbers import arms_of, at, change, followed, train_change
from papers.dynamics.settings import (
    EPOCHS,
    FIRST,
    LENGTHS,
    LEVEL_OF_THEIRS,
    SAME_ERROR,
    SECOND,
    SIMILAR,
    SOURCES,
    START,
    SURE,
    TITLES,
    WAYS,
)
from papers.losses.settings import DROP
from papers.paired import FEWEST_SEEDS, Asked, Quantity, in_words

FOCAL = ("focal-1", "focal-2", "focal-3")


def nats(pick: Pick) -> Quantity:
    """A log-loss, an entropy or a norm."""
    return Quantity(pick=pick, digits=3)


def percent(pick: Pick) -> Quantity:
    """A share."""
    return Quantity(pick=pick, digits=2, scale=100, unit=" %")


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim for which three seeds are there, with the sum and then with the mean."""
    return [claim for way in WAYS for claim in _of_way(way, arms_of(numbers, way))]


def _of_way(way: str, arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    def ask(key: str, statement: str, *departures: Departure) -> Asked:
        return Asked(
            key=f"{way}-{key}",
            source=SOURCES[way],
            statement=f"{statement} ({WAYS[way]})",
            departures=departures,
        )

    yield from _overfitting(ask, arms.get("cross-entropy"))
    for key in FOCAL:
        yield from _against_cross_entropy(ask, arms, key)
    yield from _gradients(ask, arms)
    for key in ("cross-entropy", *FOCAL):
        yield from ask(
            f"sure-{key}",
            f"Under {in_words(TITLES[key])} correctly classified images keep a mean probability of the true "
            f"class above {SURE:g}",
            LEVEL_OF_THEIRS,
        ).between(arms.get(key), percent(at("p_true_correct", EPOCHS)), low=SURE)


def _overfitting(ask: Any, arm: ArmRuns | None) -> Iterator[Claim]:
    """The account of cross-entropy's over-confidence."""
    after = {
        START: "Under cross-entropy, after the rate has dropped,",
        FIRST: f"Under cross-entropy, from epoch {FIRST} to the last,",
    }
    for key, name, statement, falls, start in (
        ("nll-rises", "nll", "the NLL of held-out images rises", False, START),
        ("right-falls", "nll_correct", "the NLL of correctly classified images falls", True, START),
        ("wrong-rises", "nll_incorrect", "the NLL of misclassified images rises", False, START),
        ("ece-rises", "ece", "the ECE of held-out images rises", False, START),
        ("peaks-right", "entropy_correct", "the entropy of correctly classified images falls", True, FIRST),
        ("peaks-wrong", "entropy_incorrect", "the entropy of misclassified images falls", True, FIRST),
    ):
        show = percent if name == "ece" else nats
        yield from ask(key, f"{after[start]} {statement}").between(
            arm, show(change(name, start)), **_bound(falls=falls)
        )
    for key, name, group in (
        ("right", "nll_correct", "correctly classified"),
        ("wrong", "nll_incorrect", "misclassified"),
    ):
        yield from ask(f"train-{key}", f"{after[FIRST]} the NLL of {group} training images falls").between(
            followed(arm), nats(train_change(name, FIRST)), high=0.0
        )


def _bound(*, falls: bool) -> dict[str, float]:
    return {"high": 0.0} if falls else {"low": 0.0}


def _against_cross_entropy(ask: Any, arms: Mapping[str, ArmRuns], key: str) -> Iterator[Claim]:
    """What is said of focal loss with an exponent."""
    plain, arm, title = arms.get("cross-entropy"), arms.get(key), in_words(TITLES[key])
    than_focal = f"under cross-entropy than under {title}"
    than_plain = f"under {title} than under cross-entropy"
    yield from ask(
        f"rise-{key}", f"After the rate has dropped, the NLL of misclassified images rises less {than_plain}"
    ).lower(arm, plain, nats(change("nll_incorrect", START)))
    yield from ask(
        f"entropy-{key}", f"In the end misclassified images have lower entropy {than_focal}"
    ).lower(plain, arm, nats(at("entropy_incorrect", EPOCHS)))
    yield from _consistent(ask, plain, arm)
    yield from ask(
        f"true-wrong-{key}",
        f"In the end misclassified images have a lower true-class probability {than_focal}",
    ).lower(plain, arm, percent(at("p_true_incorrect", EPOCHS)))
    yield from ask(
        f"true-right-{key}",
        f"In the end correctly classified images have a lower true-class probability {than_plain}",
    ).lower(arm, plain, percent(at("p_true_correct", EPOCHS)))
    yield from ask(
        f"nll-right-{key}", f"In the end correctly classified images have lower NLL {than_focal}"
    ).lower(plain, arm, nats(at("nll_correct", EPOCHS)))
    yield from ask(f"ece-lower-{key}", f"In the end the ECE of held-out images is lower {than_plain}").lower(
        arm, plain, percent(at("ece", EPOCHS))
    )
    yield from ask(
        f"error-{key}",
        f"In the end the errors of {title} and cross-entropy are almost the same (within half a point)",
    ).alike(arm, plain, percent(at("error", EPOCHS)), SAME_ERROR)
    yield from _norms(ask, plain, arm)


def _consistent(ask: Any, plain: ArmRuns | None, arm: ArmRuns | None) -> Iterator[Claim]:
    """Whether the entropy of misclassified images is higher under focal loss before the drop and after it."""
    if plain is None or arm is None:
        return
    parts = (slice(DROP), slice(DROP, EPOCHS))
    found = _decidable([difference(plain, arm, entropy_over(part)) for part in parts])
    if not found:
        return
    asked = ask(
        f"entropy-course-{arm.key}",
        "Over the epochs before the rate drops, and over those after it, misclassified images have lower "
        f"entropy under cross-entropy than under {in_words(arm.title)}",
    )
    before, after = (
        f"{plus_minus(gap, signed=True)} (lower in {_epochs_lower(plain, arm, part):.0f} % of its epochs)"
        for gap, part in zip(found, parts, strict=True)
    )
    yield Claim(
        key=asked.key,
        source=asked.source,
        statement=asked.statement,
        verdict=all_of(below(gap) for gap in found),
        evidence=f"difference before the drop {before}, after it {after}, n = {found[0].n}",
    )


def _norms(ask: Any, plain: ArmRuns | None, arm: ArmRuns | None) -> Iterator[Claim]:
    """The reversal of the paper, then its halves by themselves."""
    if plain is None or arm is None:
        return
    title = in_words(arm.title)
    first, last = nats(early_norm), nats(last_norm)
    found = _decidable([difference(plain, arm, first.pick), difference(arm, plain, last.pick)])
    if found:
        asked = ask(
            f"norm-reversal-{arm.key}",
            f"The last layer's norm is lower under cross-entropy than under {title} over the epochs "
            "before the rate drops, and higher after the last epoch",
        )
        before, after = (first.shown(gap, signed=True) for gap in found)
        yield Claim(
            key=asked.key,
            source=asked.source,
            statement=asked.statement,
            verdict=all_of(below(gap) for gap in found),
            evidence=f"cross-entropy less focal loss before the drop {before}, focal loss less cross-entropy "
            f"in the end {after}, n = {found[0].n}",
        )
    for key, statement, lower, higher, norm in (
        ("first", "Over the epochs before the rate drops", plain, arm, first),
        ("last", "After the last epoch", arm, plain, last),
    ):
        half = ask(
            f"norm-{key}-{arm.key}",
            f"{statement} the last layer's norm is lower under {in_words(lower.title)} than under "
            f"{in_words(higher.title)}",
        )
        yield from replace(half, source=OWN).lower(lower, higher, norm)


def _decidable(gaps: Sequence[Mean | None]) -> list[Mean]:
    """The differences; none where one of them has too few seeds."""
    found = [gap for gap in gaps if gap is not None and gap.n >= FEWEST_SEEDS]
    return found if len(found) == len(gaps) else []


def _epochs_lower(first: ArmRuns, second: ArmRuns, epochs: slice) -> float:
    """In how many per cent of these epochs of the shared seeds the first arm's entropy is the lower one."""
    one, other = (
        [run["held_out"]["entropy_incorrect"][epochs] for run in arm.runs.values()]
        for arm in shared(first, second)
    )
    lower = [
        a < b for ours, theirs in zip(one, other, strict=True) for a, b in zip(ours, theirs, strict=True)
    ]
    return 100 * sum(lower) / len(lower)


def _gradients(ask: Any, arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    """Figure 4: lengths of the samples' gradients at first, and what becomes of them."""
    plain, focal = followed(arms.get("cross-entropy")), followed(arms.get("focal-3"))
    for epoch in (FIRST, DROP):
        asked = ask(
            f"gradients-similar-{epoch}",
            f"After epoch {epoch} the gradients of focal loss (γ = 3) and cross-entropy are similar in "
            f"length (within a factor of {SIMILAR:g})",
            LENGTHS,
        )
        asked = asked if epoch == FIRST else replace(asked, source=OWN, departures=())
        yield from asked.alike(focal, plain, log_gradients(epoch), math.log(SIMILAR))
    yield from ask(
        "gradients-shrink",
        f"From epoch {FIRST} to epoch {SECOND} focal loss's gradients (γ = 3) shrink to a smaller share",
        LENGTHS,
    ).lower(focal, plain, percent(left_of_gradients))
    yield from ask(
        "gradients-last",
        f"After epoch {SECOND} the gradients of focal loss (γ = 3) are shorter than those of cross-entropy",
        LENGTHS,
    ).lower(focal, plain, nats(lambda run: gradients(run, SECOND)))


def entropy_over(epochs: slice) -> Pick:
    """Mean entropy of misclassified images over some epochs."""

    def pick(run: Run) -> float:
        found = run["held_out"]["entropy_incorrect"][epochs]
        return sum(found) / len(found)

    return pick


def early_norm(run: Run) -> float:
    """Mean norm of the last layer's weights after the epochs before the first drop of the rate."""
    return sum(run["norms"][:DROP]) / DROP


def last_norm(run: Run) -> float:
    """That after the last epoch."""
    return run["norms"][-1]


def gradients(run: Run, epoch: int) -> float:
    """Mean length of the samples' gradients of the last layer after an epoch."""
    return run["gradient_norms"][str(epoch)]


def log_gradients(epoch: int) -> Quantity:
    """Its logarithm."""
    return Quantity(pick=lambda run: math.log(gradients(run, epoch)), digits=3, unit=" (log)")


def left_of_gradients(run: Run) -> float:
    """That before the second drop of the rate as a share of that after the first epoch."""
    return gradients(run, SECOND) / gradients(run, FIRST)
