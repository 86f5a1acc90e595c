"""The tables of the page on CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.experiments.arms import ArmRuns
from calibrant.experiments.paired import Quantity, arms_table, usual_words
from calibrant.experiments.printed_rows import fitted_table
from calibrant.experiments.studies.cifar10.claims import claims
from calibrant.experiments.studies.cifar10.numbers import arms_of
from calibrant.experiments.studies.cifar10.settings import WAYS
from calibrant.experiments.studies.gammas.numbers import of_size, rows_of
from calibrant.experiments.studies.gammas.settings import OBJECTIVES, ROWS_SIZE
from calibrant.experiments.studies.gammas.words import map_table, rows_table, size_table

_HEADS = ("error %", "NLL", "ECE %", "AdaECE %", "class-wise ECE %", "smCE %", "after T: NLL", "ECE %")


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    exponents = numbers["exponents"]
    ways = {title: arms_of(numbers, way) for way, title in WAYS.items()}
    sized = of_size(exponents, ROWS_SIZE)
    return {
        **usual_words(numbers, numbers["done"], claims(numbers), {}),
        "tables": {title: _losses(arms) for title, arms in ways.items() if arms},
        "fitted": {title: fitted_table(arms) for title, arms in ways.items() if arms},
        "rows": {title: rows_table(rows_of(exponents), objective) for objective, title in OBJECTIVES.items()},
        "sides": size_table(sized),
        "map_table": map_table(numbers["closest"], {ROWS_SIZE: sized}),
    }


def _losses(arms: Mapping[str, ArmRuns]) -> str:
    def at(stage: str, name: str) -> Quantity:
        def pick(run: Mapping[str, Any]) -> float:
            return run["stages"][stage][name]

        return Quantity(pick=pick, digits=3) if name == "nll" else Quantity(pick=pick, scale=100)

    plain = [at("before", name) for name in ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "smce")]
    return arms_table(_HEADS, arms.values(), [*plain, at("temperature", "nll"), at("temperature", "ece")])
