"""Which way something goes in each setting of the curvature study: arrows, verdicts and tables of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from papers.claims import Verdict
from papers.curvature.numbers import BASIC, BY_KEY, GAMMA, Pick, Run, at_epoch, runs_of
from papers.curvature.ranks import correlation
from papers.curvature.settings import Setting
from papers.curvature.tables import PATHS
from papers.pages import table

Runs: TypeAlias = Sequence[Run]
Settings: TypeAlias = Sequence[Setting]
_ARROWS = {1: "↑", -1: "↓", 0: "·"}
ECE = BY_KEY["before.ece"].pick


def signs(
    every: Runs,
    settings: Settings,
    first: Pick,
    second: Pick = GAMMA.pick,
    *,
    family: str = "focal",
    within: bool = False,
) -> list[int]:
    """Sign of the rank correlation in each setting that has it; 0 where the interval holds zero."""
    found = [
        correlation(runs_of(every, setting.key, family), first, second, within=within) for setting in settings
    ]
    return [each.sign for each in found if each is not None]


def arrows(found: Sequence[int]) -> str:
    """One mark for each setting.

    Example:
        >>> arrows([1, -1, 0])
        '↑↓·'
    """
    return "".join(_ARROWS[each] for each in found) or "–"


def verdict(found: Sequence[int], claimed: int) -> Verdict:
    """Whether a claim came out in at least half of the cases and its opposite in none, or vice versa.

    Example:
        >>> verdict([-1, -1, 0], -1), verdict([1, 1], -1), verdict([1, -1, -1], -1), verdict([0, 0], -1)
        ('holds', 'does not hold', 'undecided', 'undecided')
    """
    right, wrong = _counts(found, claimed)
    if bool(right) == bool(wrong):  # arrows are many and not corrected, so a single one may be chance
        return "undecided"
    return "holds" if 2 * right >= len(found) else "does not hold" if 2 * wrong >= len(found) else "undecided"


def counted(found: Sequence[int], claimed: int, noun: str) -> str:
    """How often what was claimed came out.

    Example:
        >>> counted([1, -1, 0], -1, "cases"), counted([-1, -1], -1, "settings")
        ('so in 1 of 3 cases, the opposite in 1', 'so in 2 of 2 settings, the opposite in none')
    """
    right, wrong = _counts(found, claimed)
    return f"so in {right} of {len(found)} {noun}, the opposite in {wrong or 'none'}"


def _counts(found: Sequence[int], claimed: int) -> tuple[int, int]:
    return sum(each == claimed for each in found), sum(each == -claimed for each in found)


def direction_table(every: Runs, settings: Settings) -> str:
    """Whether curvature rises or falls with γ, at each checkpoint and on test samples."""
    heads = ["with rising γ", *(f"epoch {epoch}" for epoch in settings[0].checkpoints), "end, test samples"]
    lines: list[list[str]] = []
    for place, (loss, name, title) in enumerate(PATHS):
        marks = [
            arrows(signs(every, settings, at_epoch(step, loss, name)))
            for step in range(len(settings[0].checkpoints))
        ]
        lines.append([title, *marks, arrows(signs(every, settings, BASIC[4 + place].pick))])
    return table(heads, lines)


def company_table(every: Runs, settings: Settings) -> str:
    """Whether calibration rises or falls with curvature, over all γ and among runs of the same γ."""
    keys = ("before.ece", "before.overconfidence", "after.ece", "after.nll")
    heads = ["with rising", *(BY_KEY[key].title for key in keys), "ECE as stated, same γ"]
    lines = [
        [
            each.title,
            *(arrows(signs(every, settings, each.pick, BY_KEY[key].pick)) for key in keys),
            arrows(signs(every, settings, each.pick, ECE, within=True)),
        ]
        for each in BASIC
    ]
    return table(heads, lines)
