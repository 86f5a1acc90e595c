"""The tables of a page of the loss study, and what its sentences depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant._math.means import Mean
from papers.arms import ArmRuns
from papers.losses.claims import claims, on_grid
from papers.losses.comparisons import WITHOUT_UNIT, has, mean_over, shown
from papers.losses.numbers import BY_ECE, METRICS, TITLES, arms_of
from papers.losses.published import DATA, NETWORK, PRINTED_WITH
from papers.losses.settings import (
    BY_LIKELIHOOD,
    DEPARTURES,
    GROUPS,
    OF_FCL,
    TEST_IMAGES,
    UNBALANCED,
    setting_named,
)
from papers.on_bounds import ON_BOUND, bounds, mark
from papers.pages import table
from papers.paired import claims_table, tally_sentence

PLANNED_SEEDS = 3
PAPER_GAMMAS = (-0.5, 5.0)
"""The least and the largest exponent that Komisarenko and Kull (2024) try in focal temperature scaling."""
STAGE_TITLES = {
    "before": "As trained",
    BY_ECE: "After temperature scaling, T by ECE",
    "temperature": "After temperature scaling, T by likelihood",
    "focal-temperature": "After focal temperature scaling",
}
_HEADS = {"error": "error %", "share_above_99": "% above 0.99"}
CLASS_TITLES = {
    "recall": "Recall",
    "overconfidence": "Excess confidence",
    "classwise_ece": TITLES["classwise_ece"],
}
PRINTED = (
    ("error", "na", "error"),
    ("ECE", "pre", "ECE"),
    ("ECE", "post", "ECE, after T"),
    ("AdaECE", "pre", TITLES["adaptive_ece"]),
    ("classwise-ECE", "pre", TITLES["classwise_ece"]),
    ("smCE", "pre", TITLES["smce"]),
    ("NLL", "pre", "NLL × 100"),
    ("NLL", "post", "NLL × 100, after T"),
    ("S99", "pre", "% above 0.99"),
    ("S99", "post", "% above 0.99, after T"),
)


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    arms, counts = arms_of(numbers), numbers["training_counts"]
    ns = sorted({len(arm.runs) for arm in arms})
    imbalanced = max(counts) > 2 * min(counts)
    asked = claims(numbers)
    runs = [run for arm in arms for run in arm.runs.values()]
    return {
        "keys": {arm.key for arm in arms},
        "seeds": str(ns[0]) if len(ns) == 1 else f"{ns[0]} to {ns[-1]}",
        "more_seeds": ns[-1] > PLANNED_SEEDS,
        "planned_seeds": PLANNED_SEEDS,
        "short": [arm.title for arm in arms if len(arm.runs) < numbers["seeds_wanted"]],
        "imbalanced": imbalanced,
        "stages": {
            title: _stage(known, stage)
            for stage, title in STAGE_TITLES.items()
            if (known := [arm for arm in arms if has(arm, stage)])
        },
        "runs": len(runs),
        "wanted": len(setting_named(numbers["setting"]).arms) * numbers["seeds_wanted"],
        "by_ece_missing": sum(BY_ECE not in run["stages"] for run in runs),
        "fitted": _fitted(arms),
        "exponents": _exponents(arms),
        "by_group": {
            STAGE_TITLES[stage]: _group_table(arms, counts, stage) for stage in ("before", "temperature")
        }
        if imbalanced
        else {},
        "by_class": {CLASS_TITLES[name]: _class_table(arms, counts, name) for name in CLASS_TITLES}
        if imbalanced
        else {},
        "counted": tally_sentence(asked),
        "departures": dict.fromkeys(one for claim in asked for one in claim.departures),
        "left_to_others": {one for departures in DEPARTURES.values() for one in departures},
        "unbalanced": UNBALANCED,
        "by_likelihood": BY_LIKELIHOOD,
        "of_fcl": OF_FCL,
        "test_images": TEST_IMAGES,
        "claim_table": claims_table(asked),
        "quoted": _quoted(arms, numbers["published"]),
        "quoted_of": (NETWORK, DATA),
    }


def _stage(arms: Sequence[ArmRuns], stage: str) -> str:
    names = [name for name in METRICS if name != "error" or stage == "before"]
    heads = [_HEADS.get(name) or TITLES[name] + ("" if name in WITHOUT_UNIT else " %") for name in names]
    rows = [
        [arm.title, str(len(arm.runs)), *(_cell(arm.metric(stage, name), name) for name in names)]
        for arm in arms
    ]
    return table(["loss", "n", *heads], rows)


def _cell(found: Mean, name: str) -> str:
    return shown(found, name).removesuffix(" %")


def _fitted(arms: Sequence[ArmRuns]) -> str:
    heads = ["loss", "n", "T", "T by ECE", "focal: T", "focal: γ", "training accuracy %"]
    rows = [
        [
            arm.title,
            str(len(arm.runs)),
            _cell(arm.parameter("temperature"), "temperature"),
            _cell(on_grid(arm.parameter("ece_temperature")), "temperature"),
            *(_range(arm, name) for name in ("focal_temperature", "gamma")),
            _cell(arm.mean(lambda run: run["train_accuracy"]), "accuracy"),
        ]
        for arm in arms
    ]
    return table(heads, rows)


def _range(arm: ArmRuns, name: str) -> str:
    """The least and the largest over the seeds: where parameters run along a ridge, a mean says nothing."""
    values = [run["parameters"][name] for run in arm.runs.values()]
    ends = dict.fromkeys(
        f"{value:.3f}" + (mark(name, [value]) if name == "gamma" else "")
        for value in (min(values), max(values))
    )
    return " … ".join(ends)


def _exponents(arms: Sequence[ArmRuns]) -> dict[str, Any]:
    """How many fits of the exponent end on a bound, and how many lie beyond the grid of the paper."""
    gammas = [run["parameters"]["gamma"] for arm in arms for run in arm.runs.values()]
    low, high = PAPER_GAMMAS
    return {
        "all": len(gammas),
        "bound": sum(bool(mark("gamma", [gamma])) for gamma in gammas),
        "beyond": sum(not low <= gamma <= high for gamma in gammas),
        "bounds": bounds()["gamma"],
        "grid": PAPER_GAMMAS,
        "mark": ON_BOUND,
    }


def _group_table(arms: Sequence[ArmRuns], counts: Sequence[int], stage: str) -> str:
    heads = ["loss", "n"]
    for name, part in GROUPS.items():
        heads += [
            f"{name} ({counts[part][-1]}–{counts[part][0]} images): recall %",
            "excess %",
            f"{TITLES['classwise_ece']} %",
        ]
    rows = [
        [
            arm.title,
            str(len(arm.runs)),
            *(
                _cell(arm.mean(mean_over(stage, name, part)), name)
                for part in GROUPS.values()
                for name in CLASS_TITLES
            ),
        ]
        for arm in arms
    ]
    return table(heads, rows)


def _class_table(arms: Sequence[ArmRuns], counts: Sequence[int], name: str) -> str:
    def mean(arm: ArmRuns, place: int) -> str:
        return f"{100 * arm.mean(lambda run: run['classes']['before'][name][place]).value:.1f}"

    heads = ["loss", *(f"{place} ({count})" for place, count in enumerate(counts))]
    return table(heads, [[arm.title, *(mean(arm, place) for place in range(len(counts)))] for arm in arms])


def _quoted(arms: Sequence[ArmRuns], published: Sequence[Mapping[str, str]]) -> str:
    """The printed numbers of the same methods, a row per arm and source; empty where there are none."""
    known = {(quote["source"], quote["arm"], quote["metric"], quote["stage"]): quote for quote in published}
    rows: list[list[str]] = []
    for arm in arms:
        for source in dict.fromkeys(quote["source"] for quote in published):
            cells = [known.get((source, arm.key, metric, stage)) for metric, stage, _ in PRINTED]
            if any(cells):
                title = PRINTED_WITH.get((source, arm.key), arm.title)
                rows.append([title, source, *(_printed(cell) for cell in cells)])
    return table(["loss", "source", *(title for _, _, title in PRINTED)], rows) if rows else ""


def _printed(quote: Mapping[str, str] | None) -> str:
    if quote is None:
        return "–"
    return quote["value"] + (f" ({quote['temperature']})" if quote["temperature"] else "")
