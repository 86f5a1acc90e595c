"""The table by group in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calibrant.evaluation.phrases import percent
from calibrant.evaluation.result import GroupRow, Kind, Verdict
from calibrant.evaluation.thresholds import TOLERABLE_GAP, beyond_chance

MOST_NAMED = 3  # in a sentence


def group_sentence(
    rows: Sequence[GroupRow], num_groups: int, level: float, *, top_label: bool = False
) -> str:
    """What the table says in short; ``top_label``: that it speaks of the top label, not of the classes."""
    bad = [row for row in rows if beyond_chance(row.adjusted_p, level)]
    bad.sort(key=lambda row: -abs(row.gap.value or 0.0))
    vague = sum(row.vague for row in rows)
    where = f"{len(rows)} groups" if len(rows) == num_groups else f"the {len(rows)} largest groups"
    where_off = " in the top label" if top_label else ""
    told = [
        f"{row.name} (says {percent(row.mean_confidence.value or 0.0)}, "
        f"is right {percent(row.accuracy.value or 0.0)} of the time)"
        for row in bad[:MOST_NAMED]
    ]
    are = "are" if len(bad) > 1 else "is"
    who = (
        f"{len(bad) or 'None'} of {where} {are}"
        if num_groups > 1
        else f"The only group is{'' if bad else ' not'}"
    )
    said = f"{who} miscalibrated{where_off} beyond chance"
    if told:
        said += f": {', '.join(told)}" + (
            f" and {len(bad) - MOST_NAMED} more" if len(bad) > MOST_NAMED else ""
        )
    if len(rows) > 1:
        said += f" (Holm's adjustment for {len(rows)} looks)"
    if vague:
        said += (
            f"; {vague} {'are' if vague > 1 else 'is'} too small to tell a gap of {percent(TOLERABLE_GAP)}"
        )
    return f"{said}."


def with_groups(
    verdict: Verdict,
    rows: tuple[GroupRow, ...],
    groups: Sequence[str] | None,
    level: float,
    kind: Kind,
) -> Verdict:
    """The verdict with the sentence on the groups, before the one that says what to do next."""
    if groups is None or not rows:
        return verdict
    said = group_sentence(rows, len(set(groups)), level, top_label=kind in {"binary", "multiclass"})
    place = len(verdict.sentences) - (verdict.repair is None)
    off = sum(beyond_chance(row.adjusted_p, level) for row in rows)
    line = verdict.line
    if off and verdict.direction in {
        "calibrated",
        "calibrated in part",
        "undecided",
    }:  # which does not hold of each
        verb = "are" if off > 1 else "is"
        line = f"{line} But {off} of {len(rows)} groups {verb} miscalibrated beyond chance."
    return replace(
        verdict, line=line, sentences=(*verdict.sentences[:place], said, *verdict.sentences[place:])
    )
