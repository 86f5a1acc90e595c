"""The numbers of the papers' result tables, as printed; README.md says what they are and what is doubtful."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from calibrant._math.text_form import named

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Paper:
    """A paper and the file with its tables.

    Attributes:
        title: Its name in sentences.
        file: The file with its tables.
        runs: Over how many trainings its numbers with a standard deviation are means.
    """

    title: str
    file: str
    runs: int | None = None


PAPERS = {
    "mukhoti-2020": Paper("Mukhoti et al. (2020)", "mukhoti-2020-focal-loss-calibration.csv"),
    "komisarenko-kull-2024": Paper(
        "Komisarenko and Kull (2024)", "komisarenko-kull-2024-focal-temperature-properness.csv", runs=5
    ),
    "focal-calibration-loss-2025": Paper("focal calibration loss (2025)", "focal-calibration-loss-2025.csv"),
}
"""By the names that papers have in the files, in layouts and in the names of layouts."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A number of a paper's table, with the words of the file; empty where the paper gives none.

    Attributes:
        table: The table of the paper.
        value: As printed, trailing zeros too.
        stage: ``pre`` or ``post`` temperature scaling, ``na`` where it does not matter.
        temperature: With which the number was obtained.
        sd: Standard deviation over trainings.
        note: What is doubtful.
        calibrator: The calibrator, where the paper compares two.
    """

    table: str
    dataset: str
    model: str
    method: str
    metric: str
    unit: str
    stage: str
    temperature: str
    value: str
    sd: str
    note: str
    calibrator: str = ""


def paper_named(key: str) -> Paper:
    """The paper of that key."""
    return named(key, PAPERS, "paper")


@cache
def facts(paper: str) -> tuple[Fact, ...]:
    """All numbers of a paper's tables, in the order of the paper."""
    path = FOLDER / paper_named(paper).file
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [{key: text for key, text in row.items() if key != "paper"} for row in csv.DictReader(lines)]
    return tuple(Fact(**row) for row in rows)
