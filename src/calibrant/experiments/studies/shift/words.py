"""The tables of the page on shift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.experiments.claims import below
from calibrant.experiments.means import mean_of, plus_minus
from calibrant.experiments.pages import listed, table
from calibrant.experiments.paired import claims_table, tally_sentence
from calibrant.experiments.studies.shift.claims import TEMPERATURE, claims, led_in_table
from calibrant.experiments.studies.shift.numbers import auroc, effect, foreign_sets, largest, runs_of_loss
from calibrant.experiments.studies.shift.settings import (
    AS_TRAINED,
    CROSS_ENTROPY,
    NUM_CORRUPTIONS,
    ONLY_IN_TABLE,
    SCORES,
    SEVERITIES,
    SHORT,
    STAGES,
    TABLE_4,
    TITLES,
)


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    done = sum(len(arm["runs"]) for arm in numbers["arms"])
    per_run = numbers["cpu_seconds"] / done
    counts = [len(arm["runs"]) for arm in numbers["arms"]]
    found = claims(numbers)
    return {
        "done": done,
        "seeds": max(counts),
        "seeds_each": f"{counts[0]} seeds each" if len({*counts}) == 1 else f"up to {max(counts)} seeds",
        "minutes": per_run / 60,
        "hours": numbers["cpu_seconds"] / 3600,
        "left_hours": (numbers["wanted"] - done) * per_run / 3600,
        "corruptions": listed(numbers["corruptions"]),
        "kinds": len(numbers["corruptions"]),
        "all_kinds": len(numbers["corruptions"]) == NUM_CORRUPTIONS,
        "in_table": _in_table(),
        "promise": {TITLES[arm["loss"]]: _promise(arm["runs"]) for arm in numbers["arms"]},
        "effects": _effects(numbers),
        "repaired": _tally(numbers, TEMPERATURE, AS_TRAINED),
        "left": _said_of(numbers, "above-clean"),
        "left_under": _said_of(numbers, "above-clean", each=True),
        "under": _said_of(numbers, "under-confident"),
        "gaps": _gaps(numbers),
        "worst": _worst(numbers),
        "told": {title: _told(numbers, score) for score, title in SCORES.items()},
        "tally": tally_sentence(found),
        "claim_table": claims_table(found),
    }


def _promise(runs: Sequence[Mapping[str, Any]]) -> str:
    """ECE of every calibrator on clean images and by severity."""
    rows = [
        [
            title,
            *(
                plus_minus(mean_of([run[clean][stage]["ece"] for run in runs]), 2, 100)
                for clean in ("clean", "clean_shown")
            ),
            *(
                plus_minus(mean_of([run["severities"][stage][place]["ece"] for run in runs]), 2, 100)
                for place in range(len(SEVERITIES))
            ),
        ]
        for stage, title in STAGES.items()
    ]
    errors = [
        mean_of([run[clean][AS_TRAINED]["error"] for run in runs]) for clean in ("clean", "clean_shown")
    ]
    errors += [
        mean_of([run["severities"][AS_TRAINED][place]["error"] for run in runs])
        for place in range(len(SEVERITIES))
    ]
    rows.append(["*error*", *(plus_minus(each, 2, 100) for each in errors)])
    heads = ["ECE %", "clean, all", "clean, the same", *(f"severity {severity}" for severity in SEVERITIES)]
    return table(heads, rows)


def _effects(numbers: Mapping[str, Any]) -> str:
    """The ECE after temperature scaling less that as trained, with and without one corruption."""
    rows: list[list[str]] = []
    for loss, title in TITLES.items():
        runs = runs_of_loss(numbers, loss)
        if not runs:
            continue
        names = [largest(runs, place, TEMPERATURE, AS_TRAINED) for place in range(len(SEVERITIES))]
        for said, without in ((f"{title}", [""] * len(SEVERITIES)), ("… without the largest", names)):
            found = [
                effect(runs, place, TEMPERATURE, AS_TRAINED, without=name)
                for place, name in enumerate(without)
            ]
            cells = [
                f"{plus_minus(each, 2, 100, signed=True)}{f' ({name})' if name else ''}"
                for each, name in zip(found, without, strict=True)
            ]
            rows.append([said, *cells])
    return table(["loss", *(f"severity {severity}" for severity in SEVERITIES)], rows)


def _tally(numbers: Mapping[str, Any], first: str, second: str) -> list[str]:
    """At which severities a calibrator lowers or raises the ECE, loss by loss."""
    said: list[str] = []
    for loss, title in TITLES.items():
        runs = runs_of_loss(numbers, loss)
        if not runs:
            continue
        places = range(len(SEVERITIES))
        names = [largest(runs, place, first, second) for place in places]
        whole = _by_verdict(below(effect(runs, place, first, second)) for place in places)
        less = _by_verdict(
            below(effect(runs, place, first, second, without=name))
            for place, name in zip(places, names, strict=True)
        )
        same = "the same without that corruption"
        said.append(f"{title}: {whole}; {same if less == whole else f'without that corruption {less}'}")
    return said


def _by_verdict(verdicts: Iterable[str]) -> str:
    """At which severities an ECE is lower, higher or undecided."""
    found = dict(zip(SEVERITIES, verdicts, strict=True))
    return ", ".join(
        f"{word} at {', '.join(str(severity) for severity, each in found.items() if each == verdict)}"
        for verdict, word in (("holds", "lower"), ("does not hold", "higher"), ("undecided", "undecided"))
        if verdict in found.values()
    )


def _in_table() -> str:
    """In how many rows of the paper's table 4 FCL is above each other loss."""
    titles = {name: TITLES[loss] for loss, name in TABLE_4.items()} | dict(ONLY_IN_TABLE)
    found = {title: led_in_table(name) for name, title in titles.items()}
    rows = {of for _, of in found.values()}.pop()
    counts = [f"{led} against {title}" for title, (led, _) in found.items()]
    return ", ".join(counts).replace(" against", f" of {rows} rows against", 1)


def _said_of(numbers: Mapping[str, Any], start: str, *, each: bool = False) -> str:
    """The verdicts on claims whose names begin so, with the losses or the corruptions they are about."""
    found: dict[str, list[str]] = {}
    titles = {short: TITLES[loss] for loss, short in SHORT.items()}
    for claim in claims(numbers):
        name, _, about = claim.key.partition(", ")
        after, _, corruption = about.partition(", ")
        if name == start and bool(corruption) == each:
            found.setdefault(str(claim.verdict), []).append(corruption or titles[after])

    def told(names: Sequence[str]) -> str:
        return listed(names) if each else " and ".join(names)  # losses have commas of their own

    return "; ".join(f"*{verdict}* for {told(names)}" for verdict, names in found.items())


def _gaps(numbers: Mapping[str, Any]) -> str:
    """Mean confidence less accuracy, after temperature scaling."""
    rows = [
        [
            TITLES[arm["loss"]],
            plus_minus(
                mean_of([run["clean_shown"]["temperature"]["gap"] for run in arm["runs"]]),
                2,
                100,
                signed=True,
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
                plus_minus(
                    mean_of([run["corruptions"][corruption][stage][-1] for run in arm["runs"]]), 2, 100
                )
                for stage in STAGES
            ),
        ]
        for corruption in numbers["corruptions"]
    ]
    return table(["ECE %", *STAGES.values()], rows)


def _told(numbers: Mapping[str, Any], score: str) -> str:
    sets = foreign_sets(len(numbers["corruptions"]))
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
