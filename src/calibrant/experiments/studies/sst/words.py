"""The tables of the page on SST."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from calibrant.experiments.arms import ArmRuns
from calibrant.experiments.means import mean_of, plus_minus
from calibrant.experiments.pages import table
from calibrant.experiments.paired import FEWEST_SEEDS, claims_table
from calibrant.experiments.studies.sst.claims import claims
from calibrant.experiments.studies.sst.numbers import arms_of, of_printed, printed, ratios, ratios_at
from calibrant.experiments.studies.sst.settings import (
    CONVENTIONS,
    LOSSES,
    PLAIN,
    PRINTED,
    RENORMALISED,
    STRUCK,
)

EPOCHS = (1, 5, 10, 15, 20, 25)


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    counts = {loss.key: 0 for loss in LOSSES}
    for run in numbers["runs"]:
        counts[run["loss"]] += 1
    done, wanted = len(numbers["runs"]), numbers["wanted"]
    found = claims(numbers)
    spent = sum(run["cpu_seconds"] for run in numbers["runs"])
    per_run = spent / done
    return {
        "done": done,
        "wanted": wanted,
        "hours": spent / 3600,
        "minutes": per_run / 60,
        "left_hours": (wanted - done) * per_run / 3600,
        "seeds": sorted(set(counts.values())),
        "absent": [loss.title for loss in LOSSES if not counts[loss.key]],
        "tables": {title: _table(numbers, name) for name, title in CONVENTIONS.items()},
        "fitted": {name: _fitted(arms_of(numbers, name)) for name in CONVENTIONS},
        "epochs": _epochs(numbers),
        "kept": _kept(numbers),
        "theory": _theory(numbers),
        "fewest": FEWEST_SEEDS,
        "verdicts": Counter(str(claim.verdict) for claim in found),
        "claim_table": claims_table(found),
    }


def _table(numbers: Mapping[str, Any], convention: str) -> str:
    """Ours, with the published number below it in brackets where there is one."""
    arms, theirs = arms_of(numbers, convention), printed(numbers)
    rows: list[list[str]] = []
    for key, arm in arms.items():
        cells = [_ours(arm, column) for column in range(len(PRINTED))]
        rows.append([arm.title, str(len(arm.runs)), *cells])
        if any(loss == key for _, loss in theirs):
            rows.append(["*published*", "", *(_theirs(theirs.get((c, key))) for c in range(len(PRINTED)))])
    return table(["loss", "n", *(each.title for each in PRINTED)], rows)


def _ours(arm: ArmRuns, column: int) -> str:
    name = PRINTED[column].temperature
    bracket = "" if name is None else f" ({arm.parameter(name).value:.1f})"
    return f"{plus_minus(of_printed(arm, column), 2)}{bracket}"


def _theirs(fact: Mapping[str, str] | None) -> str:
    if fact is None:
        return "–"
    return f"*{fact['value']}*" + (f" (*{float(fact['temperature']):.1f}*)" if fact["temperature"] else "")


def _fitted(arms: Mapping[str, ArmRuns]) -> str:
    heads = ["loss", "n", "T by NLL", "T by ECE", "ECE, T by NLL %", "focal temperature: T", "γ", "ECE %"]
    rows = [
        [
            arm.title,
            str(len(arm.runs)),
            plus_minus(arm.parameter("temperature"), 2),
            plus_minus(arm.parameter("ece_temperature"), 2),
            plus_minus(arm.metric("temperature", "ece"), 2, 100),
            plus_minus(arm.parameter("focal_temperature"), 2),
            plus_minus(arm.parameter("gamma"), 2),
            plus_minus(arm.metric("focal-temperature", "ece"), 2, 100),
        ]
        for arm in arms.values()
    ]
    return table(heads, rows)


def _epochs(numbers: Mapping[str, Any]) -> str:
    """The temperature of the held-out sentences by epoch, and the epoch that was kept."""
    rows: list[list[str]] = []
    for arm in arms_of(numbers, RENORMALISED).values():
        runs = list(arm.runs.values())
        kept = ", ".join(str(run["kept_epoch"]) for run in runs)
        cells = [plus_minus(mean_of([run["temperatures"][epoch - 1] for run in runs]), 2) for epoch in EPOCHS]
        rows.append([arm.title, kept, *cells])
    return table(["loss", "epochs kept", *(f"T, epoch {epoch}" for epoch in EPOCHS)], rows)


def _kept(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The epochs that were kept, for losses without a focal exponent and with one."""
    from scipy.stats import mannwhitneyu

    epochs = sorted(run["kept_epoch"] for run in numbers["runs"])
    plain, focal = (
        sorted(run["kept_epoch"] for run in numbers["runs"] if (run["loss"] in PLAIN) == is_plain)
        for is_plain in (True, False)
    )
    p = float(mannwhitneyu(plain, focal).pvalue) if plain and focal else None
    return {"first": epochs[0], "last": epochs[-1], "plain": plain, "focal": focal, "p": p}


def _theory(numbers: Mapping[str, Any]) -> str:
    heads = ["γ", "n", "binary map", "of three", "renormalised", "as published", "their networks"]
    heads += [f"epoch {epoch}" for epoch in EPOCHS]
    rows: list[list[str]] = []
    for row in numbers["theory"]:
        found = [ratios(numbers, name, row["gamma"]) for name in (RENORMALISED, STRUCK)]
        found += [ratios_at(numbers, epoch, row["gamma"]) for epoch in EPOCHS]
        if found[0]:
            cells = [plus_minus(mean_of(each), 2) for each in found]
            cells.insert(2, _published_ratio(numbers, row["gamma"]))
            predicted = [f"{row[name]:.3f}" for name in ("binary", "three")]
            rows.append([f"{row['gamma']:g}", str(len(found[0])), *predicted, *cells])
    return table(heads, rows)


def _published_ratio(numbers: Mapping[str, Any], gamma: float) -> str:
    """The ratio of their temperatures, which they chose by ECE to a tenth."""
    theirs = printed(numbers)
    column = next(place for place, each in enumerate(PRINTED) if each.temperature == "ece_temperature")
    focal, plain = (theirs.get((column, key)) for key in (f"focal-{gamma:g}", "cross-entropy"))
    if focal is None or plain is None:
        return "–"
    return f"{float(focal['temperature']) / float(plain['temperature']):.2f}"
