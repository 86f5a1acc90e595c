"""The tables of the calibrator study's page, and what its sentences depend on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from calibrant._math.means import mean_of, plus_minus
from papers.calibrators.claims import NAMES, exponent_gains, rival_gains
from papers.calibrators.gains import Gain, adjusted, gain, gain_without_zeros, sides
from papers.calibrators.numbers import means_of
from papers.calibrators.settings import (
    COMPARED,
    CRITERIA,
    FITTED_BY,
    FOCAL,
    PLAIN,
    RESAMPLES,
    RIVALS,
    TRIMMED,
)
from papers.pages import table

SHOWN = ("nll", "brier", "ece", "classwise", "smce", "accuracy")
TITLES = {
    "nll": "NLL",
    "brier": "Brier",
    "ece": "ECE",
    "adaptive_ece": "AdaECE",
    "classwise": "classwise",
    "smce": "smCE",
    "accuracy": "accuracy",
}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    families = {by: exponent_gains(numbers, by) for by in COMPARED}
    rivals = {by: rival_gains(numbers, by) for by in ("nll", "ece")}
    p_rivals = {by: adjusted(family) for by, family in rivals.items()}
    return {
        "resamples": RESAMPLES,
        "trimmed": TRIMMED,
        "exponent": _exponent_table(numbers, families),
        "exponent_sides": {TITLES[by]: sides(family) for by, family in families.items()},
        "rows": _rows_table(numbers),
        "floors": {
            name: _floor_table(each["floors"]) for name, each in numbers["exponent"].items() if each["floors"]
        },
        "zeros": {name: each["rows"]["zeros"] for name, each in numbers["exponent"].items()},
        "shares": _shares(numbers),
        "rivals": _rivals_table(
            rivals, p_rivals, {name for name, each in numbers["exponent"].items() if each["floors"]}
        ),
        "family": len(rivals["nll"]),
        "rival_sides": {
            f"{NAMES[rival]}, {TITLES[by]}": sides(
                {name: each for name, each in family.items() if name[1] == rival}, p_rivals[by]
            )
            for by, family in rivals.items()
            for rival in RIVALS
        },
        "criteria": [_criteria_table(numbers, calibrator) for calibrator in FITTED_BY],
        "tables": {name: _file_table(numbers, name) for name in numbers["files"]},
    }


def _shown(found: Gain | None) -> str:
    """A gain with twice its standard error's 95 % range.

    Example:
        >>> _shown(Gain(0.5, 0.1))
        '+0.5000 ± 0.1960'
    """
    return "–" if found is None else f"{found.value:+.4f} ± {1.96 * found.error:.4f}"


def _p(value: float) -> str:
    """A p-value; very small ones as a bound.

    Example:
        >>> _p(0.04), _p(1e-9)
        ('.040', '<.001')
    """
    return "<.001" if value < 1e-3 else f"{value:.3f}".removeprefix("0")


def _exponent_table(numbers: Mapping[str, Any], families: Mapping[str, Mapping[str, Gain | None]]) -> str:
    p_values = {by: adjusted(family) for by, family in families.items()}
    heads = ["file", *(head for by in COMPARED for head in (TITLES[by], "p"))]
    rows: list[list[str]] = []
    for name in numbers["files"]:
        zeros = numbers["exponent"][name]["floors"]
        cells = (cell for by in COMPARED for cell in (_shown(families[by][name]), _p(p_values[by][name])))
        rows.append([f"`{name}`" + (" without zeros" if zeros else ""), *cells])
        if zeros:
            whole = (cell for by in COMPARED for cell in (_shown(gain(numbers, name, by, PLAIN, FOCAL)), "–"))
            rows.append([f"`{name}` with them", *whole])
    return table(heads, rows)


def _rows_table(numbers: Mapping[str, Any]) -> str:
    """How the gain in NLL spreads over the samples."""
    heads = ["file", "zero", "lower on", "gain: mean", "median", "trimmed", "largest"]
    rows = [
        [
            f"`{name}`",
            f"{found['rows']['zeros']:.0f}",
            f"{found['rows']['falls']:.0%}",
            *(f"{found['rows'][each]:+.4f}" for each in ("gain", "median", "trimmed")),
            f"{found['rows']['largest']:+.2f}",
        ]
        for name, found in numbers["exponent"].items()
    ]
    return table(heads, rows)


def _floor_table(floors: list[dict[str, Any]]) -> str:
    """The gains over each other calibrator, floor by floor."""
    pairs = [(other, by) for other in floors[0]["over"] for by in ("nll", "ece")]
    heads = ["floor", "NLL before", *(f"{_over(other)}: {TITLES[by]}" for other, by in pairs)]
    rows = [
        [
            "without these samples" if each["floor"] is None else f"{each['floor']:.0e}",
            f"{each['over'][PLAIN]['nll']['before']:.4f}",
            *(_shown(Gain(found["gain"], found["error"])) for found in _found(each, pairs)),
        ]
        for each in floors
    ]
    return table(heads, rows)


def _over(other: str) -> str:
    return f"over {NAMES[other].removesuffix(' scaling')}"


def _found(floor: Mapping[str, Any], pairs: list[tuple[str, str]]) -> Iterator[dict[str, float]]:
    for other, by in pairs:
        yield floor["over"][other][by]


def _shares(numbers: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The gain of the exponent as a share of the NLL in per cent, file by file, the largest first.

    Where probabilities of exactly zero came true, without these samples.
    """
    shares: dict[str, float] = {}
    for name, found in numbers["files"].items():
        fall, before = gain_without_zeros(numbers, name, "nll", PLAIN), means_of(found, PLAIN).get("nll")
        floors = numbers["exponent"][name]["floors"]
        if floors:
            before = floors[-1]["over"][PLAIN]["nll"]["before"]
        if fall is not None and before is not None:
            shares[name] = 100 * fall.value / before
    return sorted(shares.items(), key=lambda share: -share[1])


def _rivals_table(
    gains: Mapping[str, Mapping[tuple[str, str], Gain | None]],
    p_values: Mapping[str, Mapping[tuple[str, str], float]],
    zeros: Collection[str],
) -> str:
    files = dict.fromkeys(name for name, _ in gains["nll"])
    heads = ["file", *(f"{_over(rival)}: {TITLES[by]}" for rival in RIVALS for by in gains)]

    def cell(by: str, key: tuple[str, str]) -> str:
        return _shown(gains[by][key]) + ("" if p_values[by][key] < 0.05 else " (n.s.)")

    return table(
        heads,
        [
            [
                f"`{name}`" + (" without zeros" if name in zeros else ""),
                *(cell(by, (name, rival)) for rival in RIVALS for by in gains),
            ]
            for name in files
        ],
    )


def _criteria_table(numbers: Mapping[str, Any], calibrator: str) -> str:
    """By how many per cent a measure changes if the calibrator is fitted by it instead of by NLL."""
    pairs = [(by, f'{calibrator}(objective="{by}")') for by in CRITERIA[1:]]
    pairs.append(("nll", f'{calibrator}(objective="ece")'))
    columns: list[list[float]] = [[] for _ in pairs]
    rows: list[list[str]] = []
    for name, found in numbers["files"].items():
        cells: list[str] = []
        for column, (measure, text) in zip(columns, pairs, strict=True):
            before, after = (means_of(found, each).get(measure) for each in (calibrator, text))
            if before is None or after is None or before == 0:
                cells.append("–")
                continue
            column.append(100 * (after / before - 1))
            cells.append(f"{column[-1]:+.1f}")
        rows.append([f"`{name}`", *cells])
    means = [plus_minus(mean_of(column), 1, signed=True) if column else "–" for column in columns]
    heads = [f"{calibrator}; file", *(f"by {TITLES[by]}" for by in CRITERIA[1:]), "NLL, if by ECE"]
    return table(heads, [*rows, ["mean over the files", *means]])


def _file_table(numbers: Mapping[str, Any], file: str) -> str:
    found = numbers["files"][file]
    heads = ["calibrator", *(TITLES[name] for name in SHOWN), "NLL gain", "ECE gain", "changed", "seconds"]

    def row(name: str) -> list[str]:
        each, means = found["calibrators"][name], means_of(found, name)
        gains = (
            None if name == PLAIN else gain(numbers, file, measure, PLAIN, name) for measure in ("nll", "ece")
        )
        return [
            name + (f" ({each['failures']} failed)" if each["failures"] else ""),
            *("–" if (value := means.get(by)) is None else f"{value:.4f}" for by in SHOWN),
            *(_shown(one) for one in gains),
            f"{each['changed']:.2%}",
            "–" if each["seconds"] is None else f"{each['seconds']:.3f}",
        ]

    def nll(name: str) -> float:
        value = means_of(found, name).get("nll")
        return math.inf if value is None else value

    return table(heads, [row(name) for name in sorted(found["calibrators"], key=nll)])
