"""What the records of the generalisation-gap study say, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from calibrant.experiments.studies.generalisation_gap import GAMMAS, Cell
from calibrant.experiments.studies.study_records import Record

Arm: TypeAlias = Mapping[str, Any]
Pick: TypeAlias = Callable[[Arm], float]

NUMBERS: Mapping[str, Pick] = {
    "train_overconfidence": lambda arm: arm["train"]["overconfidence"],
    "train_temperature": lambda arm: arm["train"]["temperature"],
    "test_overconfidence": lambda arm: arm["test"]["overconfidence"],
    "test_calibration_error": lambda arm: arm["test"]["calibration_error"],
    "test_cross_entropy": lambda arm: arm["test"]["cross_entropy"],
    "test_temperature": lambda arm: arm["test"]["temperature"],
    "mapped_train_overconfidence": lambda arm: arm["train_mapped"]["overconfidence"],
    "mapped_test_overconfidence": lambda arm: arm["test_mapped"]["overconfidence"],
    "mapped_test_temperature": lambda arm: arm["test_mapped"]["temperature"],
    "mapped_calibration_error": lambda arm: arm["test_mapped"]["calibration_error"],
}


def name_of(gamma: float) -> str:
    """The loss in words."""
    return "cross-entropy" if gamma == 0 else f"γ = {gamma:g}"


def of_cell(records: Sequence[Record], cell: Cell) -> list[Record]:
    """The records of a cell, one per seed."""
    return [
        each
        for each in records
        if (each["num_samples"], each["num_features"]) == (cell.num_samples, cell.num_features)
    ]


def _arms(records: Sequence[Record], cell: Cell, gamma: float) -> list[Arm]:
    place = GAMMAS.index(gamma)
    return [each["arms"][place] for each in of_cell(records, cell)]


def each_of(records: Sequence[Record], cell: Cell, gamma: float, name: str) -> list[float]:
    """A number of every fit that counts."""
    return [NUMBERS[name](arm) for arm in _arms(records, cell, gamma) if _counts(arm)]


def pairs_of(records: Sequence[Record], cell: Cell, gamma: float) -> list[tuple[Arm, Arm]]:
    """Cross-entropy and focal loss on the same sample, where both have a minimum."""
    both = zip(_arms(records, cell, 0.0), _arms(records, cell, gamma), strict=True)
    return [(cross, focal) for cross, focal in both if _counts(cross) and _counts(focal)]


def _counts(arm: Arm) -> bool:
    """Whether there is a minimum, and weights that point the right way."""
    return arm["converged"] and arm["test"]["temperature"] is not None


def lost_of(records: Sequence[Record], cell: Cell, gamma: float) -> int:
    """How many fits do not count."""
    return sum(not _counts(arm) for arm in _arms(records, cell, gamma))
