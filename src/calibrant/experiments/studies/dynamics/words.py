"""The tables of the page on dynamics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.experiments.arms import ArmRuns
from calibrant.experiments.pages import table
from calibrant.experiments.paired import Quantity, arms_table, usual_words
from calibrant.experiments.studies.dynamics.claims import (
    claims,
    early_norm,
    gradients,
    left_of_gradients,
    nats,
    percent,
)
from calibrant.experiments.studies.dynamics.numbers import (
    arms_of,
    at,
    change,
    followed,
    share_of,
    train_change,
)
from calibrant.experiments.studies.dynamics.settings import (
    EPOCHS,
    FIRST,
    LEVEL_OF_THEIRS,
    LOSSES,
    QUESTIONS,
    START,
    STARTS,
    WAYS,
)
from calibrant.experiments.studies.losses.settings import DROP

RISES: Mapping[str, Quantity] = {
    "NLL": nats(change("nll", START)),
    "through right images": nats(share_of("correct", START)),
    "through wrong images": nats(share_of("incorrect", START)),
    "NLL, right": nats(change("nll_correct", START)),
    "NLL, wrong": nats(change("nll_incorrect", START)),
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
    "NLL, right": nats(train_change("nll_correct")),
    "NLL, wrong": nats(train_change("nll_incorrect")),
    **{
        f"gradients, epoch {epoch}": nats(lambda run, epoch=epoch: gradients(run, epoch))
        for epoch in (FIRST, DROP, EPOCHS)
    },
    "left %": percent(left_of_gradients),
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
        "starts": _starts({way: arms.get("cross-entropy") for way, arms in by_way.items()}),
        "first_start": STARTS[0],
        "last_start": STARTS[-1],
        "losses": len(LOSSES),
        "level": LEVEL_OF_THEIRS.what,
        "drop": DROP,
        "first": FIRST,
        "start": START,
        "last": EPOCHS,
    }


def _starts(arms: Mapping[str, ArmRuns | None]) -> str:
    """Cross-entropy's change of the NLL to the last epoch, from several epochs on."""
    rows = [
        [way, str(len(arm.runs)), *(nats(change("nll", start)).cell(arm) for start in STARTS)]
        for way, arm in arms.items()
        if arm is not None
    ]
    return table(["cross-entropy", "n", *(f"from epoch {start}" for start in STARTS)], rows)
