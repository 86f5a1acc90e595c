"""The tables of the page on shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.experiments.means import mean_of, plus_minus
from calibrant.experiments.pages import table
from calibrant.experiments.studies.shift.claims import claims
from calibrant.experiments.studies.shift.numbers import auroc, foreign_sets
from calibrant.experiments.studies.shift.settings import (
    AS_TRAINED,
    CORRUPTIONS,
    CROSS_ENTROPY,
    SCORES,
    SEVERITIES,
    STAGES,
    TITLES,
)


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    done = sum(len(arm["runs"]) for arm in numbers["arms"])
    per_run = numbers["cpu_seconds"] / done
    counts = [len(arm["runs"]) for arm in numbers["arms"]]
    verdicts: dict[str, int] = {}
    for claim in claims(numbers):
        verdicts[claim.verdict] = verdicts.get(claim.verdict, 0) + 1
    return {
        "done": done,
        "seeds": max(counts),
        "minutes": per_run / 60,
        "hours": numbers["cpu_seconds"] / 3600,
        "left_hours": (numbers["wanted"] - done) * per_run / 3600,
        "corruptions": CORRUPTIONS,
        "promise": {TITLES[arm["loss"]]: _promise(arm["runs"]) for arm in numbers["arms"]},
        "gaps": _gaps(numbers),
        "worst": _worst(numbers),
        "told": {title: _told(numbers, score) for score, title in SCORES.items()},
        "verdicts": verdicts,
        "claim_table": _claim_table(numbers),
    }


def _promise(runs: Sequence[Mapping[str, Any]]) -> str:
    """ECE of every calibrator on clean images and by severity."""
    rows = [
        [
            title,
            plus_minus(mean_of([run["clean"][stage]["ece"] for run in runs]), 2, 100),
            *(
                plus_minus(mean_of([run["severities"][stage][place]["ece"] for run in runs]), 2, 100)
                for place in range(len(SEVERITIES))
            ),
        ]
        for stage, title in STAGES.items()
    ]
    errors = [mean_of([run["clean"][AS_TRAINED]["error"] for run in runs])]
    errors += [
        mean_of([run["severities"][AS_TRAINED][place]["error"] for run in runs])
        for place in range(len(SEVERITIES))
    ]
    rows.append(["*error*", *(plus_minus(each, 2, 100) for each in errors)])
    return table(["ECE %", "clean", *(f"severity {severity}" for severity in SEVERITIES)], rows)


def _gaps(numbers: Mapping[str, Any]) -> str:
    """Mean confidence less accuracy, after temperature scaling."""
    rows = [
        [
            TITLES[arm["loss"]],
            plus_minus(
                mean_of([run["clean"]["temperature"]["gap"] for run in arm["runs"]]), 2, 100, signed=True
            ),
            *(
                plus_minus(
                    mean_of([run["severities"]["temperature"][place]["gap"] for run in arm["runs"]]),
                    2,
                    100,
                    signed=True,
                )
                for place in range(len(SEVERITIES))
            ),
        ]
        for arm in numbers["arms"]
    ]
    return table(["loss", "clean", *(f"severity {severity}" for severity in SEVERITIES)], rows)


def _worst(numbers: Mapping[str, Any]) -> str:
    """After cross-entropy, corruption by corruption at the highest severity."""
    arm = next(each for each in numbers["arms"] if each["loss"] == CROSS_ENTROPY)
    rows = [
        [
            corruption,
            *(
                plus_minus(mean_of([run["worst"][corruption][stage] for run in arm["runs"]]), 2, 100)
                for stage in STAGES
            ),
        ]
        for corruption in CORRUPTIONS
    ]
    return table(["ECE %", *STAGES.values()], rows)


def _told(numbers: Mapping[str, Any], score: str) -> str:
    sets = foreign_sets()
    heads = ["loss", "n"]
    heads += [f"{title}, {when}" for title in sets.values() for when in ("as trained", "after T")]
    rows = [
        [
            TITLES[arm["loss"]],
            str(len(arm["runs"])),
            *(
                plus_minus(mean_of([auroc(run, name, stage, score) for run in arm["runs"]]), 1, 100)
                for name in sets
                for stage in (AS_TRAINED, "temperature")
            ),
        ]
        for arm in numbers["arms"]
    ]
    return table(heads, rows)


def _claim_table(numbers: Mapping[str, Any]) -> str:
    heads = ["claim", "of", "here", "numbers"]
    rows = [[f"{claim.statement}.", claim.source, claim.verdict, claim.evidence] for claim in claims(numbers)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *rows))
