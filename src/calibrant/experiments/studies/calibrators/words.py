"""The tables of the calibrator study's page, and what its sentences depend on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.experiments.means import Mean, mean_of
from calibrant.experiments.pages import plus_minus, table
from calibrant.experiments.studies.calibrators.numbers import (
    CRITERIA,
    FITTED_BY,
    Summary,
    Trial,
    files_of,
    gain,
    summaries,
)

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
EXPONENT = ("nll", "brier", "ece", "smce")
RIVALS = ("vector", "matrix", "structured-matrix")


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    files = files_of(numbers)
    counts = {len({trial.seed for trial in found}) for found in files.values()}
    multiclass = {name: found for name, found in files.items() if found[0].kind == "multiclass"}
    exponent = {
        (name, measure): gain(found, measure, "temperature", "focal-temperature")
        for name, found in files.items()
        for measure in EXPONENT
    }
    rivals = {
        (name, rival, measure): gain(found, measure, "focal-temperature", rival)
        for name, found in multiclass.items()
        for rival in RIVALS
        for measure in ("nll", "ece")
    }
    return {
        "divisions": str(*counts) if len(counts) == 1 else f"{min(counts)} to {max(counts)}",
        "exponent": table(
            ["file", *(TITLES[measure] for measure in EXPONENT)],
            [
                [f"`{name}`", *(plus_minus(exponent[name, measure], 4, signed=True) for measure in EXPONENT)]
                for name in files
            ],
        ),
        "shares": _shares(files),
        "exponent_sides": {
            TITLES[measure]: _sides([exponent[name, measure] for name in files]) for measure in EXPONENT
        },
        "rivals": table(
            ["file", *(head for rival in RIVALS for head in (f"{rival}: NLL", "ECE"))],
            [
                [
                    f"`{name}`",
                    *(
                        plus_minus(rivals[name, rival, measure], 4, signed=True)
                        for rival in RIVALS
                        for measure in ("nll", "ece")
                    ),
                ]
                for name in multiclass
            ],
        ),
        "rival_sides": {
            f"{rival} {TITLES[measure]}": _sides([rivals[name, rival, measure] for name in multiclass])
            for rival in RIVALS
            for measure in ("nll", "ece")
        },
        "criteria": [_criteria_table(files, calibrator) for calibrator in FITTED_BY],
        "files": {name: {"first": found[0], "table": _file_table(found)} for name, found in files.items()},
    }


def _shares(files: Mapping[str, Sequence[Trial]]) -> list[tuple[str, float]]:
    """The gain of the exponent as a share of the NLL in per cent, file by file, the largest first."""
    shares: dict[str, float] = {}
    for name, found in files.items():
        fall = gain(found, "nll", "temperature", "focal-temperature")
        before = {each.calibrator: each.means["nll"] for each in summaries(found)}.get("temperature")
        if fall is not None and before is not None:
            shares[name] = 100 * fall.value / before.value
    return sorted(shares.items(), key=lambda share: -share[1])


def _sides(means: Sequence[Mean | None]) -> dict[str, int]:
    """On how many files the interval lies above zero, below it, and neither."""
    known = [(0, 0) if mean is None else (mean.low > 0, mean.high < 0) for mean in means]
    above, below = sum(each[0] for each in known), sum(each[1] for each in known)
    return {"all": len(known), "above": above, "below": below, "neither": len(known) - above - below}


def _criteria_table(files: Mapping[str, Sequence[Trial]], calibrator: str) -> str:
    """By how many per cent a measure changes if the calibrator is fitted by it instead of by NLL."""
    pairs = [(by, f'{calibrator}(objective="{by}")') for by in CRITERIA[1:]]
    pairs.append(("nll", f'{calibrator}(objective="ece")'))
    columns: list[list[float]] = [[] for _ in pairs]
    rows: list[list[str]] = []
    for name, found in files.items():
        means = {each.calibrator: each.means for each in summaries(found)}
        cells: list[str] = []
        for column, (measure, text) in zip(columns, pairs, strict=True):
            before, after = (means.get(each, {}).get(measure) for each in (calibrator, text))
            if before is None or after is None or before.value == 0:
                cells.append("–")
                continue
            column.append(100 * (after.value / before.value - 1))
            cells.append(f"{column[-1]:+.1f}")
        rows.append([f"`{name}`", *cells])
    means_row = [plus_minus(mean_of(column), 1, signed=True) if column else "–" for column in columns]
    heads = [f"{calibrator}; file", *(f"by {TITLES[by]}" for by in CRITERIA[1:]), "NLL, if by ECE"]
    return table(heads, [*rows, ["mean", *means_row]])


def _file_table(trials: Sequence[Trial]) -> str:
    heads = ["calibrator", *(TITLES[name] for name in SHOWN), "changed", "seconds"]
    rows = [
        [
            each.calibrator + (f" ({each.failures} failed)" if each.failures else ""),
            *(plus_minus(each.means[name], 4) for name in SHOWN),
            f"{each.changed:.2%}",
            "–" if each.seconds is None else f"{each.seconds:.3f}",
        ]
        for each in sorted(summaries(trials), key=_nll)
    ]
    return table(heads, rows)


def _nll(each: Summary) -> float:
    mean = each.means["nll"]
    return math.inf if mean is None else mean.value
