"""Published numbers of the methods that the loss study tries; of other data and other networks."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.experiments.studies.loss_study_numbers import ArmNumbers

DATA, NETWORK = "CIFAR-10", "ResNet-50"
SOURCES = {
    "mukhoti-2020-focal-loss-calibration.csv": "Mukhoti et al. (2020)",
    "focal-calibration-loss-2025.csv": "focal calibration loss (2025)",
}
_OTHER_NAMES = {"cross-entropy": "weight-decay"}
"""What the second paper calls cross-entropy with weight decay."""
_METRICS = ("error", "ECE", "AdaECE", "classwise-ECE", "smCE", "NLL", "S99")


@dataclass(frozen=True, kw_only=True)
class Quote:
    """One printed number."""

    source: str
    table: str
    arm: str
    metric: str
    stage: str
    value: str
    """As printed: per cent, NLL in nats times 100."""
    temperature: str
    note: str


def quotes(folder: Path, numbers: Sequence[ArmNumbers]) -> list[Quote]:
    """What the papers print for the arms that are there, on CIFAR-10 with ResNet-50; each number once.

    Raises:
        InputError: If a table is missing.
    """
    names = {each.arm.published: each.arm.key for each in numbers if each.arm.published}
    names |= {other: names[own] for own, other in _OTHER_NAMES.items() if own in names}
    found: dict[tuple[str, ...], Quote] = {}
    for file, source in SOURCES.items():
        path = folder / file
        if not path.is_file():
            raise InputError(f"there is no {file} in {folder}; --published names the folder of such tables.")
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                if (row["dataset"], row["model"]) != (DATA, NETWORK) or row["metric"] not in _METRICS:
                    continue
                if row["method"] not in names or not row["value"]:
                    continue
                quote = Quote(
                    source=source,
                    table=row["table"],
                    arm=names[row["method"]],
                    metric=row["metric"],
                    stage=row["stage"],
                    value=row["value"],
                    temperature=row["temperature"],
                    note=row["note"],
                )
                found.setdefault((source, quote.arm, quote.metric, quote.stage), quote)
    return list(found.values())
