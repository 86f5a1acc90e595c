"""The tables of the page on dynamics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.experiments.paired import Quantity, arms_table, usual_words
from calibrant.experiments.studies.dynamics.claims import claims, early_norm, left_of_gradients, nats, percent
from calibrant.experiments.studies.dynamics.numbers import (
    arms_of,
    at,
    change,
    followed,
    share_of,
    train_change,
)
from calibrant.experiments.studies.dynamics.settings import EPOCHS, LOSSES, QUESTIONS, START, WAYS
from calibrant.experiments.studies.losses.settings import DROP

RISES: Mapping[str, Quantity] = {
    "NLL": nats(change("nll", START)),
    "through right ones": nats(share_of("correct", START)),
    "through wrong ones": nats(share_of("incorrect", START)),
    "NLL of right ones": nats(change("nll_correct", START)),
    "of wrong ones": nats(change("nll_incorrect", START)),
    "ECE, points": percent(change("ece", START)),
    "error, points": percent(change("error", START)),
    f"NLL since epoch {DROP}": nats(change("nll", DROP)),
}
ENDS: Mapping[str, Quantity] = {
    "error %": percent(at("error", EPOCHS)),
    "ECE %": percent(at("ece", EPOCHS)),
    "NLL": nats(at("nll", EPOCHS)),
    "entropy, right": nats(at("entropy_correct", EPOCHS)),
    "entropy, wrong": nats(at("entropy_incorrect", EPOCHS)),
    "true class %, right": percent(at("p_true_correct", EPOCHS)),
    "true class %, wrong": percent(at("p_true_incorrect", EPOCHS)),
    "norm, before the drop": nats(early_norm),
    "norm, last": nats(lambda run: run["norms"][-1]),
}

FOLLOWED: Mapping[str, Quantity] = {
    "error %": percent(lambda run: run["train"][str(EPOCHS)]["error"]),
    "change of NLL": nats(train_change("nll")),
    "of right ones": nats(train_change("nll_correct")),
    "of wrong ones": nats(train_change("nll_incorrect")),
    "gradients left %": percent(left_of_gradients),
}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    by_way = {WAYS[way]: arms_of(numbers, way) for way in WAYS}
    done = sum(len(arm.runs) for arms in by_way.values() for arm in arms.values())
    return {
        **usual_words(numbers, done, claims(numbers), QUESTIONS),
        "rises": {
            way: arms_table([*RISES], arms.values(), [*RISES.values()]) for way, arms in by_way.items()
        },
        "ends": {way: arms_table([*ENDS], arms.values(), [*ENDS.values()]) for way, arms in by_way.items()},
        "followed": {
            way: arms_table([*FOLLOWED], some, [*FOLLOWED.values()])
            for way, arms in by_way.items()
            if (some := [each for arm in arms.values() if (each := followed(arm))])
        },
        "losses": len(LOSSES),
        "drop": DROP,
        "start": START,
        "last": EPOCHS,
    }
