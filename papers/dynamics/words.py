"""The tables of the page on dynamics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant._math.means import Mean, plus_minus
from papers.arms import ArmRuns, difference
from papers.dynamics.claims import (
    FOCAL,
    claims,
    early_norm,
    gradients,
    last_norm,
    left_of_gradients,
    log_gradients,
    nats,
    percent,
)
from papers.dynamics.numbers import (
    arms_of,
    at,
    change,
    followed,
    share_of,
    train_change,
)
from papers.dynamics.settings import (
    EPOCHS,
    FIRST,
    LOSSES,
    QUESTIONS,
    SECOND,
    START,
    STARTS,
    WAYS,
)
from papers.losses.settings import DROP
from papers.pages import listed, table
from papers.paired import Quantity, arms_table, usual_words

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
    "norm, last": nats(last_norm),
}

FOLLOWED: Mapping[str, Quantity] = {
    "error %": percent(lambda run: run["train"][str(EPOCHS)]["error"]),
    "NLL": nats(train_change("nll", FIRST)),
    "NLL, right": nats(train_change("nll_correct", FIRST)),
    "NLL, wrong": nats(train_change("nll_incorrect", FIRST)),
    f"NLL, wrong, since epoch {START}": nats(train_change("nll_incorrect", START)),
    **{
        f"gradients, epoch {epoch}": nats(lambda run, epoch=epoch: gradients(run, epoch))
        for epoch in (FIRST, DROP, SECOND, EPOCHS)
    },
    "left %": percent(left_of_gradients),
}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    by_way = {WAYS[way]: arms_of(numbers, way) for way in WAYS}
    runs = [run for arms in by_way.values() for arm in arms.values() for run in arm.runs.values()]
    asked = claims(numbers)
    return {
        **usual_words(numbers, len(runs), asked, QUESTIONS),
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
        "rises_less": [_rises_less(by_way, start) for start in STARTS],
        "norms": {way: _norms(arms) for way, arms in by_way.items()},
        "reversals": [claim.verdict for claim in asked if "-norm-reversal-" in claim.key],
        "first_gradients": {
            way: gap
            for way, arms in by_way.items()
            if (gap := _gap(arms, "focal-3", log_gradients(FIRST), measured=True))
        },
        "err_more": [
            f"γ = {key.removeprefix('focal-')}, {way} ({plus_minus(gap, 2, 100, signed=True)} points)"
            for way, arms in by_way.items()
            for key in FOCAL
            if (gap := _gap(arms, key, ENDS["error %"])) and gap.low > 0
        ],
        "train_epochs": listed(sorted({epoch for run in runs for epoch in run.get("train", ())}, key=int)),
        "gradient_epochs": listed(
            sorted({epoch for run in runs for epoch in run.get("gradient_norms", ())}, key=int)
        ),
        "first_start": STARTS[0],
        "last_start": STARTS[-1],
        "losses": len(LOSSES),
        "drop": DROP,
        "first": FIRST,
        "start": START,
        "second": SECOND,
        "last": EPOCHS,
    }


def _gap(arms: Mapping[str, ArmRuns], key: str, what: Quantity, *, measured: bool = False) -> Mean | None:
    """What a focal loss has more than cross-entropy, with ``measured`` over runs with training images."""
    focal, plain = arms.get(key), arms.get("cross-entropy")
    if measured:
        focal, plain = followed(focal), followed(plain)
    return difference(focal, plain, what.pick) if focal and plain else None


def _rises_less(ways: Mapping[str, Mapping[str, ArmRuns]], start: int) -> tuple[int, int]:
    """In how many comparisons the NLL of wrong images rises less under focal loss, of how many there are."""
    what = nats(change("nll_incorrect", start))
    gaps = [gap for arms in ways.values() for key in FOCAL if (gap := _gap(arms, key, what))]
    return sum(gap.high < 0 for gap in gaps), len(gaps)


def _norms(arms: Mapping[str, ArmRuns]) -> dict[str, int]:
    """In how many comparisons focal loss's norm is the larger or the smaller one, at first and in the end."""
    first, last = (
        [gap for key in FOCAL if (gap := _gap(arms, key, nats(norm)))] for norm in (early_norm, last_norm)
    )
    return {
        "of": len(first),
        "larger_first": sum(gap.low > 0 for gap in first),
        "smaller_first": sum(gap.high < 0 for gap in first),
        "larger_last": sum(gap.low > 0 for gap in last),
        "smaller_last": sum(gap.high < 0 for gap in last),
    }


def _starts(arms: Mapping[str, ArmRuns | None]) -> str:
    """Cross-entropy's changes to the last epoch, from several epochs on."""
    asked = {
        "NLL": (nats, "nll"),
        "NLL, wrong": (nats, "nll_incorrect"),
        "ECE, points": (percent, "ece"),
    }
    rows = [
        [f"{title}; {way}", str(len(arm.runs)), *(show(change(name, start)).cell(arm) for start in STARTS)]
        for title, (show, name) in asked.items()
        for way, arm in arms.items()
        if arm is not None
    ]
    return table(["cross-entropy", "n", *(f"from epoch {start}" for start in STARTS)], rows)
