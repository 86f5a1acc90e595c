"""The table by group in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calibrant.evaluation.phrases import percent
from calibrant.evaluation.result import GroupRow, Verdict
from calibrant.evaluation.thresholds import TOLERABLE_GAP, beyond_chance

MOST_NAMED = 3  # in a sentence


def bad_groups(rows: Sequence[GroupRow], level: float) -> list[GroupRow]:
    """The groups that are miscalibrated beyond noise, the largest gap first."""
    bad = [row for row in rows if beyond_chance(row.adjusted_p, level)]
    return sorted(bad, key=lambda row: -abs(row.gap.value or 0.0))


def named(bad: Sequence[GroupRow]) -> str:
    """``reseller: 44.0% predicted, 33.0% actual``; of many groups the first."""
    shares = (
        (row.name, *(percent(each.value or 0.0) for each in (row.predicted, row.actual))) for row in bad
    )
    told = [f"{name}: {predicted} predicted, {actual} actual" for name, predicted, actual in shares][
        :MOST_NAMED
    ]
    more = len(bad) - MOST_NAMED
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")


def group_sentence(rows: Sequence[GroupRow], num_groups: int, level: float) -> str:
    """The table of groups in a sentence."""
    bad, vague = bad_groups(rows, level), sum(row.vague for row in rows)
    are = "is" if len(bad) == 1 else "are"
    said = f"{len(bad) or 'None'} of {len(rows)} groups {are} miscalibrated beyond noise"
    if num_groups == 1:
        said = f"The only group is {'' if bad else 'not '}miscalibrated beyond noise"
    if bad:
        said += f" ({named(bad)})"
    if len(rows) > 1:
        said += f", corrected for {len(rows)} tests (Holm)"
    if vague:
        small = f"{vague} {'is' if vague == 1 else 'are'} too small"
        said += f"; {small} to show an error of {percent(TOLERABLE_GAP)}"
    if num_groups > len(rows):
        said += f"; {num_groups - len(rows) + 1} small groups are pooled"
    return f"{said}."


def with_groups(
    verdict: Verdict, rows: tuple[GroupRow, ...], groups: Sequence[str] | None, level: float
) -> Verdict:
    """The verdict with the sentence on the groups, before the one that says what to do next."""
    if groups is None or not rows:
        return verdict
    said = group_sentence(rows, len(set(groups)), level)
    place = len(verdict.sentences) - (verdict.repair is None)
    return replace(verdict, sentences=(*verdict.sentences[:place], said, *verdict.sentences[place:]))
