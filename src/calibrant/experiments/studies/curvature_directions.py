"""Which way something goes in each setting of the curvature study: arrows, verdicts and tables of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from calibrant.experiments.pages import table
from calibrant.experiments.records import Record
from calibrant.experiments.studies.curvature_numbers import (
    BASIC,
    BY_KEY,
    GAMMA,
    Pick,
    at_epoch,
    correlation,
    runs_of,
)
from calibrant.experiments.studies.curvature_settings import Setting
from calibrant.experiments.studies.curvature_tables import PATHS

Records: TypeAlias = Sequence[Record]
Settings: TypeAlias = Sequence[Setting]
_ARROWS = {1: "↑", -1: "↓", 0: "·"}
_ECE = BY_KEY["before.ece"].pick


def signs(
    records: Records,
    settings: Settings,
    first: Pick,
    second: Pick = GAMMA.pick,
    *,
    family: str = "focal",
    within: bool = False,
) -> list[int]:
    """Of the rank correlation in each setting that has it: 1, -1, or 0 where the interval holds zero."""
    found = [
        correlation(runs_of(records, setting.key, family), first, second, within=within)
        for setting in settings
    ]
    return [each.sign for each in found if each is not None]


def arrows(found: Sequence[int]) -> str:
    """One mark for each setting.

    Example:
        >>> arrows([1, -1, 0])
        '↑↓·'
    """
    return "".join(_ARROWS[each] for each in found) or "–"


def verdict(found: Sequence[int], claimed: int) -> str:
    """How often what was claimed came out.

    Example:
        >>> verdict([-1, -1], -1), verdict([1, -1, 0], -1), verdict([0, 0], -1)
        ('Holds', 'Holds in 1 of 3 settings, the opposite in 1', 'Not shown')
        >>> verdict([1, 0], -1)
        'Does not hold, the opposite in 1 of 2 settings'
    """
    right, wrong = (sum(each == sign for each in found) for sign in (claimed, -claimed))
    if right == len(found) > 0:
        return "Holds"
    if right:
        return f"Holds in {right} of {len(found)} settings" + (f", the opposite in {wrong}" if wrong else "")
    return f"Does not hold, the opposite in {wrong} of {len(found)} settings" if wrong else "Not shown"


def direction_table(records: Records, settings: Settings) -> str:
    """Whether curvature rises or falls with γ, at each checkpoint and on test samples."""
    heads = ["with rising γ", *(f"epoch {epoch}" for epoch in settings[0].checkpoints), "end, test samples"]
    lines: list[list[str]] = []
    for place, (loss, name, title) in enumerate(PATHS):
        marks = [
            arrows(signs(records, settings, at_epoch(step, loss, name)))
            for step in range(len(settings[0].checkpoints))
        ]
        lines.append([title, *marks, arrows(signs(records, settings, BASIC[4 + place].pick))])
    return table(heads, lines)


def company_table(records: Records, settings: Settings) -> str:
    """Whether calibration rises or falls with curvature, over all γ and among runs of the same γ."""
    keys = ("before.ece", "before.overconfidence", "after.ece", "after.nll")
    heads = ["with rising", *(BY_KEY[key].title for key in keys), "ECE as stated, same γ"]
    lines = [
        [
            each.title,
            *(arrows(signs(records, settings, each.pick, BY_KEY[key].pick)) for key in keys),
            arrows(signs(records, settings, each.pick, _ECE, within=True)),
        ]
        for each in BASIC
    ]
    return table(heads, lines)
