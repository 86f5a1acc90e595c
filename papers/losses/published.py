"""Published numbers of the methods that the loss study tries; of other data and other networks."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path

from calibrant._math.errors import InputError
from papers.losses.settings import Arm

DATA, NETWORK = "CIFAR-10", "ResNet-50"
SOURCES = {
    "mukhoti-2020-focal-loss-calibration.csv": "Mukhoti et al. (2020)",
    "focal-calibration-loss-2025.csv": "focal calibration loss (2025)",
}
PRINTED_WITH = {
    (SOURCES["focal-calibration-loss-2025.csv"], "focal-calibration"): "focal calibration, γ = 4, λ = 1.5",
    (SOURCES["focal-calibration-loss-2025.csv"], "dual-focal"): "dual focal (γ not printed; its text has 2)",
}
"""What a paper calls a method where its settings are not ours: by source and arm."""
_OTHER_NAMES = {"cross-entropy": "weight-decay"}
"""What the second paper calls cross-entropy with weight decay."""
_METRICS = ("error", "ECE", "AdaECE", "classwise-ECE", "smCE", "NLL", "S99")


def quotes(folder: Path, arms: Collection[Arm]) -> list[dict[str, str]]:
    """What the papers print for some arms, on CIFAR-10 with ResNet-50; each number once.

    Values are as printed: per cent, NLL in nats times 100.

    Raises:
        InputError: If a table is missing.
    """
    names = {arm.published: arm.key for arm in arms if arm.published}
    names |= {other: names[own] for own, other in _OTHER_NAMES.items() if own in names}
    found: dict[tuple[str, ...], dict[str, str]] = {}
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
                arm = names[row["method"]]
                kept = {name: row[name] for name in ("metric", "stage", "value", "temperature", "note")}
                quote = {"source": source, "table": row["table"], "arm": arm, **kept}
                found.setdefault((source, arm, row["metric"], row["stage"]), quote)
    return list(found.values())
