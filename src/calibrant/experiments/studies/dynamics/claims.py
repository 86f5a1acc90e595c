"""What Mukhoti et al. (2020) say of a training's course, held against the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from calibrant.experiments.arms import ArmRuns, Pick, Run
from calibrant.experiments.claims import Claim
from calibrant.experiments.paired import Asked, Quantity, in_words
from calibrant.experiments.studies.dynamics.numbers import arms_of, at, change, followed, train_change
from calibrant.experiments.studies.dynamics.settings import EPOCHS, SOURCES, START, TITLES, WAYS
from calibrant.experiments.studies.losses.settings import DROP

NLL = "NLL"
SURE = 0.95
"""What the paper finds the mean probability of the true class, of images that are right, to stay above."""
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
    def ask(key: str, statement: str) -> Asked:
        return Asked(
            key=f"{way}-{key}",
            source=SOURCES[way],
            statement=f"{statement} ({WAYS[way]})",
        )

    yield from _overfitting(ask, arms.get("cross-entropy"))
    yield from _against_cross_entropy(ask, arms)
    for key in ("cross-entropy", *FOCAL):
        title = in_words(TITLES[key])
        yield from ask(
            f"sure-{key}",
            f"Under {title} right images keep a mean probability of the true class above {SURE:g}",
        ).between(arms.get(key), percent(at("p_true_correct", EPOCHS)), low=SURE)


def _overfitting(ask: Any, arm: ArmRuns | None) -> Iterator[Claim]:
    """The account of cross-entropy's over-confidence."""
    after = "After the rate has dropped"
    held = "of held-out images under cross-entropy"
    for key, name, statement, falls in (
        ("nll-rises", "nll", f"{after}, the NLL {held} rises", False),
        ("right-falls", "nll_correct", f"{after}, that of those that are right falls", True),
        ("wrong-rises", "nll_incorrect", f"{after}, that of those that are wrong rises", False),
        ("ece-rises", "ece", f"{after}, the ECE {held} rises", False),
        ("peaks-right", "entropy_correct", f"{after}, the entropy of right ones falls", True),
        ("peaks-wrong", "entropy_incorrect", f"{after}, the entropy of wrong ones falls", True),
    ):
        show = percent if name == "ece" else nats
        yield from ask(key, statement).between(arm, show(change(name, START)), **_bound(falls=falls))
    for key, name, group in (("right", "nll_correct", "right"), ("wrong", "nll_incorrect", "wrong")):
        yield from ask(
            f"train-{key}", f"{after}, the NLL of {group} training images under cross-entropy falls"
        ).between(followed(arm), nats(train_change(name)), high=0.0)


def _bound(*, falls: bool) -> dict[str, float]:
    return {"high": 0.0} if falls else {"low": 0.0}


def _against_cross_entropy(ask: Any, arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    plain = arms.get("cross-entropy")
    for key in FOCAL:
        arm, title = arms.get(key), in_words(TITLES[key])
        yield from ask(
            f"rise-{key}",
            f"After the rate has dropped, the NLL of wrong images rises less under {title}",
        ).lower(arm, plain, nats(change("nll_incorrect", START)))
        yield from ask(
            f"entropy-{key}",
            f"In the end wrong images have the lower entropy under cross-entropy than {title}",
        ).lower(plain, arm, nats(at("entropy_incorrect", EPOCHS)))
        yield from ask(
            f"true-wrong-{key}",
            f"In the end wrong images have the lower probability of the true class under cross-entropy "
            f"than {title}",
        ).lower(plain, arm, percent(at("p_true_incorrect", EPOCHS)))
        yield from ask(f"true-right-{key}", f"In the end right ones have the lower one under {title}").lower(
            arm, plain, percent(at("p_true_correct", EPOCHS))
        )
    focal = arms.get("focal-3")
    yield from ask(
        "norm-first",
        "Over the epochs before the rate drops the last layer's norm is lower under cross-entropy than focal "
        "loss (γ = 3)",
    ).lower(plain, focal, nats(early_norm))
    yield from ask(
        "norm-last",
        "After the last epoch the last layer's norm is lower under focal loss (γ = 3) than cross-entropy",
    ).lower(focal, plain, nats(lambda run: run["norms"][-1]))
    yield from ask(
        "gradients",
        "From the first to the last epoch focal loss's gradients (γ = 3) shrink to a smaller share",
    ).lower(followed(focal), followed(plain), percent(left_of_gradients))


def early_norm(run: Run) -> float:
    """Mean norm of the last layer's weights after the epochs before the first drop of the rate."""
    return sum(run["norms"][:DROP]) / DROP


def left_of_gradients(run: Run) -> float:
    """Mean length of the samples' gradients after the last epoch, as a share of that after the first."""
    return run["gradient_norms"][str(EPOCHS)] / run["gradient_norms"]["1"]
