"""The tables of the page on SST, and what its sentences depend on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from calibrant._math.means import Mean, mean_of, plus_minus
from papers.claims import Claim, all_of, below, within
from papers.pages import listed, table
from papers.paired import FEWEST_SEEDS, claims_table, tally_sentence
from papers.printed_rows import by_place, epochs_table, fitted_table, growth
from papers.sst.claims import LAST_EPOCH, SAME_EPOCH, claims
from papers.sst.numbers import (
    Numbers,
    arms_of,
    num_epochs,
    ratios,
    ratios_at,
)
from papers.sst.settings import (
    CONVENTIONS,
    LOSSES,
    MARGIN,
    PLAIN,
    RENORMALISED,
    ROW,
    STRUCK,
)

EPOCHS = (1, 5, 10, 15, 20, 25)
_SIZE = {
    "holds": "the size is right",
    "does not hold": "the size is not",
    "undecided": "the size is undecided",
}


def words(numbers: Numbers) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    counts = {loss.key: 0 for loss in LOSSES}
    for run in numbers["runs"]:
        counts[run["loss"]] += 1
    done, wanted = len(numbers["runs"]), numbers["wanted"]
    found = claims(numbers)
    by_key = {claim.key: claim for claim in found}
    spent = sum(run["cpu_seconds"] for run in numbers["runs"])
    per_run = spent / done
    return {
        "done": done,
        "wanted": wanted,
        "hours": spent / 3600,
        "minutes": per_run / 60,
        "left_hours": (wanted - done) * per_run / 3600,
        "losses": len(LOSSES),
        "seeds": sorted(set(counts.values())),
        "absent": [loss.title for loss in LOSSES if not counts[loss.key]],
        "tables": {
            title: ROW.beside(arms_of(numbers, name), numbers["published"])
            for name, title in CONVENTIONS.items()
        },
        "focal_ece": {
            name: arms["focal-3"].metric("before", "ece")
            for name in CONVENTIONS
            if "focal-3" in (arms := arms_of(numbers, name))
        },
        "repaired": {name: _span_after_t(numbers, name) for name in CONVENTIONS},
        "beside": _beside(numbers),
        "agreed": _agreed(numbers, by_key),
        "fitted": {name: fitted_table(arms_of(numbers, name)) for name in CONVENTIONS},
        "weak": _weak_baseline(numbers),
        "epochs": epochs_table(arms_of(numbers, RENORMALISED), EPOCHS),
        "growth": growth(arms_of(numbers, RENORMALISED)),
        "kept": _kept(numbers),
        "mixed": numbers["made_by"].count(" with ") > 1,
        "predicted": _predicted(numbers),
        "found_ratios": _found(numbers),
        "at_kept": _at_kept(numbers),
        "theory": _theory(numbers, by_key),
        "margin": MARGIN,
        "fewest": FEWEST_SEEDS,
        "counted": tally_sentence(found),
        "claim_table": claims_table(found),
    }


def _span_after_t(numbers: Numbers, convention: str) -> tuple[float, float]:
    """The lowest and the highest mean ECE of a loss after the temperature with the least ECE, in per cent."""
    means = [100 * arm.metric("by-ece", "ece").value for arm in arms_of(numbers, convention).values()]
    return min(means), max(means)


def _beside(numbers: Numbers) -> list[float]:
    """How much our error, which is the same under both conventions, is above the published one, by loss."""
    theirs = by_place(numbers["published"])
    return [
        ROW.ours(arm, 0).value - float(theirs[0, key]["value"])
        for key, arm in arms_of(numbers, STRUCK).items()
        if (0, key) in theirs
    ]


def _agreed(numbers: Numbers, by_key: Mapping[str, Claim]) -> list[str]:
    """The losses that have no lower ECE than cross-entropy before T, here and in the published row."""
    theirs = by_place(numbers["published"])
    before = next(place for place, each in enumerate(ROW.tables) if each.ours == ("before", "ece"))
    return [
        title
        for key, loss, title in (
            ("flsd-ece-before", "sample-focal", "FLSD-53"),
            ("focal-3-ece-before", "focal-3", "γ = 3"),
        )
        if key in by_key
        and by_key[key].verdict == "does not hold"
        and float(theirs[before, loss]["value"]) > float(theirs[before, "cross-entropy"]["value"])
    ]


def _weak_baseline(numbers: Numbers) -> dict[str, Mean] | None:
    """The ECE of γ = 3 after each repair, where T by ECE repairs more than focal temperature scaling."""
    arm = arms_of(numbers, STRUCK).get("focal-3")
    if arm is None:
        return None
    stages = {"ece": "by-ece", "focal": "focal-temperature", "likelihood": "temperature"}
    found = {name: arm.metric(stage, "ece") for name, stage in stages.items()}
    return found if found["ece"].value < found["focal"].value < found["likelihood"].value else None


def _kept(numbers: Numbers) -> dict[str, Any]:
    """The epochs that were kept, by whether a loss has a focal exponent, and how T goes with them."""
    runs = numbers["runs"]
    epochs = sorted(run["kept_epoch"] for run in runs)
    plain, focal = ([run for run in runs if (run["loss"] in PLAIN) == is_plain] for is_plain in (True, False))
    seeds = sorted({run["seed"] for run in plain} & {run["seed"] for run in focal})
    found: dict[str, Any] = {"first": epochs[0], "last": epochs[-1], "gap": None}
    if len(seeds) >= FEWEST_SEEDS:
        by_seed = [
            [fmean(run["kept_epoch"] for run in group if run["seed"] == seed) for seed in seeds]
            for group in (plain, focal)
        ]
        gap = mean_of([one - other for one, other in zip(*by_seed, strict=True)])
        medians = [median(run["kept_epoch"] for run in group) for group in (plain, focal)]
        found |= {"gap": gap, "p": below(gap).p, "medians": medians, "rank": _rank_correlation(runs)}
    return found


def _rank_correlation(runs: Sequence[Mapping[str, Any]]) -> float:
    """Spearman's, of the epoch that is kept and the likeliest T there; not a number if either is constant."""
    from scipy.stats import spearmanr

    epochs = [run["kept_epoch"] for run in runs]
    needed = [run["conventions"][RENORMALISED]["parameters"]["temperature"] for run in runs]
    return (
        float(spearmanr(epochs, needed).statistic)
        if min(map(len, map(set, (epochs, needed)))) > 1
        else math.nan
    )


def _predicted(numbers: Numbers) -> str:
    """What the paper expects, and what that makes of cross-entropy's temperature at the kept epochs."""
    heads = ["γ", "T(γ)", "1/(0.95γ + 0.85)", "proposition 3", "T(γ), three classes"]
    heads += ["cross-entropy's T × T(γ)", "focal loss's T"]
    arms = arms_of(numbers, RENORMALISED)
    rows: list[list[str]] = []
    for row in numbers["theory"]:
        gamma = row["gamma"]
        upper = 1 / (gamma + 1 - math.log(gamma + 1) / 2)
        cells = [f"{gamma:g}", f"{row['binary']:.3f}", f"{1 / (0.95 * gamma + 0.85):.3f}"]
        cells += [f"{1 / (gamma + 1):.3f} to {upper:.3f}", f"{row['three']:.3f}"]
        plain, focal = (arms.get(key) for key in ("cross-entropy", f"focal-{gamma:g}"))
        cells.append(
            plus_minus(
                plain and plain.mean(lambda run, at=row: at["binary"] * run["parameters"]["temperature"]), 2
            )
        )
        cells.append(plus_minus(focal and focal.parameter("temperature"), 2))
        rows.append(cells)
    return table(heads, rows)


def _found(numbers: Numbers) -> str:
    """Focal loss's temperature over cross-entropy's after the same epoch."""
    heads = ["γ", "n", "T(γ)", "the epoch kept for focal loss", *(f"epoch {epoch}" for epoch in EPOCHS)]
    rows: list[list[str]] = []
    for row in numbers["theory"]:
        found = [ratios_at(numbers, row["gamma"], epoch) for epoch in (None, *EPOCHS)]
        if found[0]:
            cells = [plus_minus(mean_of(each), 2) for each in found]
            rows.append([f"{row['gamma']:g}", str(len(found[0])), f"{row['binary']:.2f}", *cells])
    return table(heads, rows)


def _at_kept(numbers: Numbers) -> str:
    """The same at the epochs that are kept, by convention and criterion, beside the published row."""
    heads = ["γ", "n", "T(γ)", "renormalised, by likelihood", "renormalised, by ECE"]
    heads += ["struck out, by likelihood", "struck out, by ECE", "published: struck out, by ECE"]
    rows: list[list[str]] = []
    for row in numbers["theory"]:
        found = [
            ratios(numbers, convention, row["gamma"], name)
            for convention in (RENORMALISED, STRUCK)
            for name in ("temperature", "ece_temperature")
        ]
        if found[0]:
            cells = [plus_minus(mean_of(each), 2) for each in found]
            start = [f"{row['gamma']:g}", str(len(found[0])), f"{row['binary']:.2f}"]
            rows.append([*start, *cells, _published_ratio(numbers, row["gamma"])])
    return table(heads, rows)


def _published_ratio(numbers: Numbers, gamma: float) -> str:
    """The ratio of their temperatures, with what steps of a tenth leave open."""
    theirs = by_place(numbers["published"])
    column = next(place for place, each in enumerate(ROW.tables) if each.temperature == "ece_temperature")
    focal, plain = (theirs.get((column, key)) for key in (f"focal-{gamma:g}", "cross-entropy"))
    if focal is None or plain is None:
        return "–"
    above, under = float(focal["temperature"]), float(plain["temperature"])
    low, high = (above - 0.05) / (under + 0.05), (above + 0.05) / (under - 0.05)
    return f"{above / under:.2f} ({low:.2f} to {high:.2f})"


def _theory(numbers: Numbers, by_key: Mapping[str, Claim]) -> dict[str, Any] | None:
    """The answer in words and numbers; None while there are too few seeds."""
    if SAME_EPOCH not in by_key:
        return None
    rows, last = numbers["theory"], num_epochs(numbers)
    gammas = [row["gamma"] for row in rows]
    same, final = ([mean_of(ratios_at(numbers, gamma, epoch)) for gamma in gammas] for epoch in (None, last))
    pairs = [(row, epoch) for row in rows for epoch in range(1, last + 1)]
    beyond = [
        _over(ratios_at(numbers, row["gamma"], epoch), row["binary"]).low > MARGIN for row, epoch in pairs
    ]
    three = [_over(ratios_at(numbers, row["gamma"], last), row["three"]) for row in rows]
    papers = [_over(ratios(numbers, STRUCK, row["gamma"], "ece_temperature"), row["binary"]) for row in rows]
    sizes = [_SIZE[by_key[key].verdict] for key in (SAME_EPOCH, LAST_EPOCH)]
    return {
        "gammas": listed(f"{gamma:g}" for gamma in gammas),
        "predicted": listed(f"{row['binary']:.2f}" for row in rows),
        "same": _listed(same),
        "same_over": _listed(_over(ratios_at(numbers, row["gamma"]), row["binary"]) for row in rows),
        "final": _listed(final),
        "last": last,
        "direction": "right" if all(each.high < 1 for each in (*same, *final)) else "undecided",
        "size": sizes[0]
        if sizes[0] == sizes[1]
        else f"{sizes[0]} there, and {sizes[1]} after the last epoch",
        "beyond": sum(beyond),
        "pairs": len(pairs),
        "three": _listed(three),
        "three_verdict": all_of(within(each, low=1 / MARGIN, high=MARGIN) for each in three),
        "papers": _listed(papers),
        "papers_fit": all(each.low < 1 < each.high for each in papers),
    }


def _over(found: Sequence[float], predicted: float) -> Mean:
    return mean_of([each / predicted for each in found])


def _listed(means: Iterable[Mean]) -> str:
    return listed(plus_minus(each, 2) for each in means)
