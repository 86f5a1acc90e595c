"""The tables of the page on CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant._math.means import Mean
from calibrant_lab.sweep.kept_runs import DEVICE
from papers.arms import ArmRuns, difference
from papers.cifar10.claims import claims
from papers.cifar10.gradients import (
    by_way,
    clipped_by_way,
    lengths_by_way,
    often_clipped,
    products,
    products_of,
)
from papers.cifar10.numbers import arms_of
from papers.cifar10.settings import (
    CORRUPTIONS,
    DROPS,
    FOREIGN,
    IMAGES,
    NO_DECAY,
    NORMS,
    PEOPLE,
    RATES,
    STEPS,
    TITLES,
    WAYS,
)
from papers.claims import Claim
from papers.gammas.numbers import rows_of
from papers.gammas.settings import OBJECTIVES, ROWS_SIZE
from papers.gammas.words import map_table, of_map, protocol, rows_table, size_table
from papers.losses.settings import CONTRAST, OF_FCL
from papers.pages import listed, table
from papers.paired import FEWEST_SEEDS, Quantity, arms_table, enough, in_words, usual_words
from papers.printed_rows import fitted_table
from papers.shift.numbers import auroc, foreign_sets
from papers.shift.settings import AS_TRAINED
from papers.sum_or_mean.claims import EQUAL_STEPS, equal_steps
from papers.sum_or_mean.settings import LONG, MEAN, STEP, SUM
from papers.sum_or_mean.words import share_of_length

_HEADS = (
    "error %",
    "NLL",
    "ECE %",
    "AdaECE %",
    "class-wise ECE %",
    "smCE %",
    "NLL, T by NLL",
    "ECE %, T by ECE",
)
_OF_STEPS: Mapping[str, Quantity] = {
    "error %": Quantity(pick=lambda run: run["stages"]["before"]["error"], scale=100),
    "ECE %": Quantity(pick=lambda run: run["stages"]["before"]["ece"], scale=100),
    "T by NLL": Quantity(pick=lambda run: run["parameters"]["temperature"]),
    "ECE %, T by ECE": Quantity(pick=lambda run: run["stages"]["by-ece"]["ece"], scale=100),
    "norm of the last layer": Quantity(pick=lambda run: list(run["norms"].values())[-1]),
    "right on training images %": Quantity(pick=lambda run: run["train"]["accuracy"], digits=1, scale=100),
}
_OVERVIEW = ("ECE %", "T by NLL", "error %")
"""What is shown of every loss in every way."""
_WENT: Mapping[str, str] = {
    "holds": "stays lower than with the sum",
    "does not hold": "is higher than with the sum",
    "undecided": "does not differ beyond noise from that with the sum",
}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    exponents = numbers["exponents"]
    arms_by_way = {way: arms_of(numbers, way) for way in STEPS}
    ways = {title: arms_by_way[way] for way, title in WAYS.items()}
    asked = claims(numbers)
    found = {claim.key: claim for claim in asked}
    done = numbers["done"]
    on_cpu = done - numbers["on_gpu"]
    return {
        **usual_words(numbers, done, asked, {}, timed=on_cpu),
        "on_cpu": on_cpu,
        "where": _on_gpu(arms_by_way),
        "absent": [title for key, title in TITLES.items() if not any(key in arms for arms in ways.values())],
        "few": [
            f"{arm.title} ({len(arm.runs)}, {STEPS[way].title})"
            for way, arms in arms_by_way.items()
            for arm in arms.values()
            if len(arm.runs) < FEWEST_SEEDS
        ],
        "tables": {title: _losses(arms) for title, arms in ways.items() if arms},
        "fitted": {title: fitted_table(arms) for title, arms in ways.items() if arms},
        "protocol": protocol(),
        "rows": {title: rows_table(rows_of(exponents), objective) for objective, title in OBJECTIVES.items()},
        "sides": {title: size_table(arms) for title, arms in ways.items() if arms},
        "shifted": {title: _shifted(arms) for title, arms in ways.items() if arms},
        "told": {title: _told(arms) for title, arms in ways.items() if arms},
        "people": {title: _people(arms) for title, arms in ways.items() if arms},
        "steps": _steps(arms_by_way),
        "by_way": {
            **{
                title: by_way(
                    arms_by_way, f"{title} after", lambda arm, _way, what=_OF_STEPS[title]: what.cell(arm)
                )
                for title in _OVERVIEW
            },
            "gradient × rate": lengths_by_way(arms_by_way),
            "clipped": clipped_by_way(arms_by_way),
        },
        "against": _against(arms_by_way),
        "cut": often_clipped(arms_by_way),
        "titles": {way: step.title for way, step in STEPS.items()},
        "equal": {
            name: [found[key] for way, _ in EQUAL_STEPS if (key := equal_steps(way, name)) in found]
            for name in ("temperature", "ece")
        },
        "short": _short(arms_by_way),
        "moved": _moved(found),
        "drop": DROPS[0],
        "share": share_of_length(arms_by_way),
        "of_fcl": OF_FCL,
        "of_brier": {way: _against_brier(arms_by_way[way]) for way in WAYS},
        "norms": NORMS,
        "rates": RATES,
        "products": products(arms_by_way),
        "images": IMAGES,
        "contrast": [f"{each:g}" for each in CONTRAST],
        "corruptions": CORRUPTIONS,
        "of_map": of_map(numbers["closest"], {ROWS_SIZE: ways[WAYS[SUM]]}),
        "maps": {
            title: found
            for title, arms in ways.items()
            if (found := map_table(numbers["closest"], {ROWS_SIZE: arms}))
        },
    }


def _short(ways: Mapping[str, Mapping[str, ArmRuns]]) -> list[str]:
    """What cross-entropy and focal loss show with either reduction, and what a temperature leaves of it."""
    said: list[str] = []
    for way in WAYS:
        plain, focal = (ways[way].get(key) for key in ("cross-entropy", "focal-3"))
        if plain is None or focal is None:
            return []
        ece, temperature = _OF_STEPS["ECE %"], _OF_STEPS["T by NLL"]
        after = [arm.mean(_OF_STEPS["ECE %, T by ECE"].pick).value for arm in ways[way].values()]
        said.append(
            f"With the {way}, the ECE is {ece.cell(plain)} % after cross-entropy, which needs T = "
            f"{temperature.cell(plain)}, and {ece.cell(focal)} % after focal loss (γ = 3), which needs "
            f"{temperature.cell(focal)}; a temperature chosen by ECE leaves {100 * min(after):.1f} to "
            f"{100 * max(after):.1f} % after every loss."
        )
    return said


def _losses(arms: Mapping[str, ArmRuns]) -> str:
    def at(stage: str, name: str) -> Quantity:
        def pick(run: Mapping[str, Any]) -> float:
            return run["stages"][stage][name]

        return Quantity(pick=pick, digits=3) if name == "nll" else Quantity(pick=pick, scale=100)

    plain = [at("before", name) for name in ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "smce")]
    return arms_table(_HEADS, arms.values(), [*plain, at("temperature", "nll"), at("by-ece", "ece")])


def _steps(ways: Mapping[str, Mapping[str, ArmRuns]]) -> str:
    """What cross-entropy, focal loss and FLSD-53 do in each way, the ways of one loss together."""
    rows = [
        [
            arm.title,
            STEPS[way].title,
            str(len(arm.runs)),
            *(each.cell(arm) for each in _OF_STEPS.values()),
            products_of(arm, way),
        ]
        for key in ("cross-entropy", "focal-3", "sample-focal")
        for way, arms in ways.items()
        if (arm := arms.get(key))
    ]
    return table(["loss", "way", "n", *_OF_STEPS, "gradient × rate"], rows)


def _moved(found: Mapping[str, Claim]) -> str:
    """What of the way to the sum's temperature is left at the rate that matches it."""
    said = [
        f"after {name} the temperature {_WENT[claim.verdict]} ({claim.evidence})"
        for key, name in (
            (f"cross-entropy, temperature, {STEP} against {SUM}", "cross-entropy"),
            (f"focal-3, temperature, {LONG} against {SUM}", "focal loss"),
        )
        if (claim := found.get(key))
    ]
    return "; ".join(said)


def _on_gpu(ways: Mapping[str, Mapping[str, ArmRuns]]) -> str:
    """Which losses were made on a GPU, way by way; empty without any."""
    said: list[str] = []
    for way, arms in ways.items():
        seeds = {key: sum(DEVICE in run for run in arm.runs.values()) for key, arm in arms.items()}
        names = [in_words(arm.title) for key, arm in arms.items() if seeds[key] == len(arm.runs)]
        rest = [in_words(arm.title) for key, arm in arms.items() if seeds[key] < len(arm.runs)]
        if len(rest) < len(names):
            names = [f"all losses but {listed(rest)}" if rest else "all losses"]
        names += [
            f"{seeds[key]} of {len(arm.runs)} seeds of {in_words(arm.title)}"
            for key, arm in arms.items()
            if 0 < seeds[key] < len(arm.runs)
        ]
        if names:
            said.append(f"*{STEPS[way].title}*: {listed(names)}")
    return "; ".join(said)


def _against(ways: Mapping[str, Mapping[str, ArmRuns]]) -> list[str]:
    """After how many losses T is higher than with the mean, and the ECE lower than after cross-entropy."""
    temperature, ece = _OF_STEPS["T by NLL"], _OF_STEPS["ECE %"]
    decayed = {
        way: {key: arm for key, arm in enough(arms).items() if key != NO_DECAY} for way, arms in ways.items()
    }
    said: list[str] = []
    summed, means = decayed[SUM], decayed[MEAN]
    gaps = [
        (means[key].title, gap)
        for key, arm in summed.items()
        if key in means and (gap := difference(arm, means[key], temperature.pick))
    ]
    if gaps:
        said.append(f"With the sum the temperature is {_sides(gaps, 'higher', 'lower')} than with the mean")
    for way in (SUM, MEAN, STEP):
        arms = decayed[way]
        plain = arms.get("cross-entropy")
        gaps = [
            (arm.title, gap)
            for key, arm in arms.items()
            if plain and key != plain.key and (gap := difference(plain, arm, ece.pick))
        ]
        if gaps:
            lower = _sides(gaps, "lower", "higher")
            said.append(f"With the {STEPS[way].title} the ECE is {lower} than after cross-entropy")
    return said


def _sides(gaps: Sequence[tuple[str, Mean]], above: str, below: str) -> str:
    """After how many losses a difference is above zero, in words; the other losses by name."""
    negative = [in_words(title) for title, gap in gaps if gap.high < 0]
    neither = [in_words(title) for title, gap in gaps if gap.low <= 0 <= gap.high]
    said = f"{above} after {len(gaps) - len(negative) - len(neither)} of {len(gaps)} losses"
    said += f" ({below} after {listed(negative)})" if negative else ""
    return said + (f" (not beyond noise after {listed(neither)})" if neither else "")


def _against_brier(arms: Mapping[str, ArmRuns]) -> dict[str, str]:
    """FLSD-53 less the Brier score in ECE, both reduced alike, before and after temperature scaling."""
    focal, brier = arms.get("sample-focal"), arms.get("brier")
    if not focal or not brier:
        return {}
    found: dict[str, str] = {}
    for when, title in (("before", "ECE %"), ("after", "ECE %, T by ECE")):
        gap = difference(focal, brier, _OF_STEPS[title].pick)
        if gap is not None:
            found[when] = _OF_STEPS[title].shown(gap, signed=True)
    return found


def _shifted(arms: Mapping[str, ArmRuns]) -> str:
    """ECE of the same images, clean and by severity, as trained and after temperature scaling."""

    def at(stage: str, place: int | None) -> Quantity:
        def pick(run: Mapping[str, Any]) -> float:
            shift = run["shift"]
            found = shift["clean_shown"][stage] if place is None else shift["severities"][stage][place]
            return found["ece"]

        return Quantity(pick=pick, scale=100)

    heads: list[str] = []
    columns: list[Quantity] = []
    for stage, title in ((AS_TRAINED, "as trained"), ("temperature", "after T")):
        for name, place in (("clean", None), *((f"severity {each}", each - 1) for each in (1, 3, 5))):
            heads.append(f"{title}, {name}")
            columns.append(at(stage, place))
    return arms_table(heads, arms.values(), columns)


def _told(arms: Mapping[str, ArmRuns]) -> str:
    """AUROC of telling foreign images by the top probability."""
    heads: list[str] = []
    columns: list[Quantity] = []
    for foreign, title in foreign_sets(len(CORRUPTIONS), FOREIGN).items():
        for stage, when in ((AS_TRAINED, "as trained"), ("temperature", "after T")):
            heads.append(f"{title}, {when}")
            columns.append(
                Quantity(
                    pick=lambda run, foreign=foreign, stage=stage: auroc(run["shift"], foreign, stage),
                    digits=1,
                    scale=100,
                )
            )
    return arms_table(heads, arms.values(), columns)


def _people(arms: Mapping[str, ArmRuns]) -> str:
    """NLL of people's shares and squared distance to them."""
    heads: list[str] = []
    columns: list[Quantity] = []
    for stage, when in (("before", "as trained"), *((each, f"after {each}") for each in PEOPLE)):
        for name, title in (("nll", "NLL"), ("distance", "squared distance")):
            heads.append(f"{title}, {when.replace('-', ' ')}")
            columns.append(
                Quantity(pick=lambda run, stage=stage, name=name: run["people"][stage][name], digits=4)
            )
    return arms_table(heads, arms.values(), columns)
