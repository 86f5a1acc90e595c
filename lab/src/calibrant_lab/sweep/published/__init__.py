"""Numbers of the papers' result tables, as printed; README.md lists sources and doubts."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

from calibrant._math.text_form import named

FOLDER = Path(__file__).parent


class Paper(NamedTuple):
    """A paper and the file with its tables."""

    title: str  # its name in sentences
    file: str  # the file with its tables
    runs: int | None = None  # over how many trainings its numbers with a standard deviation are means


PAPERS = {
    "mukhoti-2020": Paper("Mukhoti et al. (2020)", "mukhoti-2020-focal-loss-calibration.csv"),
    "komisarenko-kull-2024": Paper(
        "Komisarenko and Kull (2024)", "komisarenko-kull-2024-focal-temperature-properness.csv", runs=5
    ),
    "focal-calibration-loss-2025": Paper("focal calibration loss (2025)", "focal-calibration-loss-2025.csv"),
}
"""Papers by their names in files and layouts."""


class Fact(NamedTuple):
    """A number of a paper's table, with the file's remarks; empty if the paper has none."""

    table: str  # the table of the paper
    dataset: str
    model: str
    method: str
    metric: str
    unit: str
    stage: str  # `pre` or `post` temperature scaling, `na` where it does not matter
    temperature: str  # with which the number was obtained
    value: str  # as printed, trailing zeros too
    sd: str  # standard deviation over trainings
    note: str  # what is doubtful
    calibrator: str = ""  # where the paper compares two


def paper_named(key: str) -> Paper:
    return named(key, PAPERS, "paper")


@cache
def facts(paper: str) -> tuple[Fact, ...]:
    path = FOLDER / paper_named(paper).file
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [{key: text for key, text in row.items() if key != "paper"} for row in csv.DictReader(lines)]
    return tuple(Fact(**row) for row in rows)
