"""The tables of the page on SST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.experiments.means import mean_of, plus_minus
from calibrant.experiments.pages import table
from calibrant.experiments.paired import FEWEST_SEEDS, claims_table, tally_sentence
from calibrant.experiments.printed_rows import by_place, epochs_table, fitted_table, growth
from calibrant.experiments.studies.sst.claims import claims
from calibrant.experiments.studies.sst.numbers import arms_of, ratios, ratios_at
from calibrant.experiments.studies.sst.settings import (
    CONVENTIONS,
    LOSSES,
    PLAIN,
    RENORMALISED,
    ROW,
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
        "tables": {
            title: ROW.beside(arms_of(numbers, name), numbers["published"])
            for name, title in CONVENTIONS.items()
        },
        "fitted": {name: fitted_table(arms_of(numbers, name)) for name in CONVENTIONS},
        "epochs": epochs_table(arms_of(numbers, RENORMALISED), EPOCHS),
        "growth": growth(arms_of(numbers, RENORMALISED)),
        "kept": _kept(numbers),
        "theory": _theory(numbers),
        "fewest": FEWEST_SEEDS,
        "counted": tally_sentence(found),
        "claim_table": claims_table(found),
    }


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
    theirs = by_place(numbers["published"])
    column = next(place for place, each in enumerate(ROW.tables) if each.temperature == "ece_temperature")
    focal, plain = (theirs.get((column, key)) for key in (f"focal-{gamma:g}", "cross-entropy"))
    if focal is None or plain is None:
        return "–"
    return f"{float(focal['temperature']) / float(plain['temperature']):.2f}"
