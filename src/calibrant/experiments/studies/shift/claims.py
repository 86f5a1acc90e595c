"""Whether repairs keep their promise under shift, and which losses tell foreign images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from calibrant.experiments.claims import Claim, below, compared
from calibrant.experiments.studies.shift.numbers import auroc, foreign_sets, runs_of_loss
from calibrant.experiments.studies.shift.settings import (
    AIM,
    AS_TRAINED,
    CROSS_ENTROPY,
    FCL,
    FLSD,
    NOT_CLAIMED,
    PAPER_FCL,
    SEVERITIES,
    STAGES,
    TITLES,
)

_PROMISES = (
    (AIM, "temperature", AS_TRAINED),
    (AIM, "vector", "temperature"),
    (NOT_CLAIMED, "focal-temperature", "temperature"),
)
"""Source, and the calibrator that is claimed to have the lower ECE."""
_TELLS = (
    (AIM, "flsd", FLSD, CROSS_ENTROPY),
    *((PAPER_FCL, "fcl", FCL, other) for other in TITLES if other != FCL),
)
"""Source, and the loss that is claimed to tell foreign images better."""


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Calibrators after cross-entropy, then losses."""
    return [*_promises(numbers), *_tells(numbers)]


def _promises(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    runs = runs_of_loss(numbers, CROSS_ENTROPY)
    for source, first, second in _PROMISES:
        for place, said in ((0, f"severity {SEVERITIES[0]}"), (-1, f"severity {SEVERITIES[-1]}")):
            gap, words = compared(
                *(
                    (STAGES[stage], [run["severities"][stage][place]["ece"] for run in runs.values()])
                    for stage in (first, second)
                ),
                scale=100,
                unit=" %",
            )
            yield Claim(
                key=f"{first} against {second}, {said}",
                source=source,
                statement=f"Fitted on clean images after cross-entropy, {STAGES[first]} has a lower ECE than "
                f"{STAGES[second]} on corrupted ones ({said})",
                verdict=below(gap),
                evidence=f"{words}, n = {gap.n} seeds",
                arms=(first, second),
            )


def _tells(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    for source, key, first, second in _TELLS:
        for foreign, title in foreign_sets().items():
            ours, theirs = runs_of_loss(numbers, first), runs_of_loss(numbers, second)
            shared = [seed for seed in ours if seed in theirs]
            if not shared:
                continue
            gap, words = compared(
                _values(TITLES[second], theirs, shared, foreign, auroc),
                _values(TITLES[first], ours, shared, foreign, auroc),
                scale=100,
            )
            yield Claim(
                key=f"foreign, {key} against {second}, {foreign}",
                source=source,
                statement=f"{TITLES[first]} tells {title} from test images better than {TITLES[second]} "
                "(AUROC of the top probability, as trained)",
                verdict=below(gap),
                evidence=f"AUROC × 100: {words}, n = {gap.n} seeds",
                arms=(first, second),
            )


def _values(
    title: str,
    runs: Mapping[int, Mapping[str, Any]],
    seeds: list[int],
    foreign: str,
    pick: Callable[[Mapping[str, Any], str, str], float],
) -> tuple[str, list[float]]:
    return title, [pick(runs[seed], foreign, AS_TRAINED) for seed in seeds]
