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
        key: Its name in the files, in layouts and in the names of layouts.
        title: Its name in sentences.
        file: The file with its tables.
        runs: Over how many trainings its numbers with a standard deviation are means.
    """

    key: str
    title: str
    file: str
    runs: int | None = None


_PAPERS = (
    Paper("mukhoti-2020", "Mukhoti et al. (2020)", "mukhoti-2020-focal-loss-calibration.csv"),
    Paper(
        "komisarenko-kull-2024",
        "Komisarenko and Kull (2024)",
        "komisarenko-kull-2024-focal-temperature-properness.csv",
        runs=5,
    ),
    Paper(
        "focal-calibration-loss-2025",
        "focal calibration loss (2025)",
        "focal-calibration-loss-2025.csv",
    ),
)
PAPERS = {each.key: each for each in _PAPERS}


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
    """The paper of that key.

    Raises:
        InputError: If there is none.

    Example:
        >>> paper_named("mukhoti-2020").title
        'Mukhoti et al. (2020)'
    """
    return named(key, PAPERS, "paper")


@cache
def facts(paper: str) -> tuple[Fact, ...]:
    """All numbers of a paper's tables, in the order of the paper.

    Raises:
        InputError: If there is no such paper.

    Example:
        >>> len(facts("mukhoti-2020")), facts("mukhoti-2020")[0].value
        (1114, '17.52')
    """
    path = FOLDER / paper_named(paper).file
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [{key: text for key, text in row.items() if key != "paper"} for row in csv.DictReader(lines)]
    return tuple(Fact(**row) for row in rows)
