"""The table by group in one sentence."""

from __future__ import annotations

from calibrant.evaluation.result import Estimate, GroupRow, NullError
from calibrant.evaluation.thresholds import significance
from calibrant.evaluation.verdict.words import group_sentence

LEVEL = 0.95


def row(name: str, actual: float, adjusted_p: float) -> GroupRow:
    """A group for which 80% are predicted."""
    return GroupRow(
        name=name,
        count=100,
        actual=Estimate(value=actual),
        predicted=Estimate(value=0.8),
        gap=Estimate(value=0.8 - actual),
        ece=Estimate(value=abs(0.8 - actual)),
        null=NullError(metric="ece", mean=0.03, upper=0.06, p_value=adjusted_p, num_draws=1000),
        p_value=adjusted_p,
        adjusted_p=adjusted_p,
        vague=False,
    )


def test_the_worst_groups_are_named_first_whichever_way_they_err() -> None:
    """By the size of the gap; of four the three worst are named."""
    rows = [row(name, accuracy, 0.001) for name, accuracy in zip("abcd", (0.7, 0.99, 0.5, 0.68), strict=True)]
    assert group_sentence(rows, 4, LEVEL) == (
        "4 of 4 groups are miscalibrated beyond noise (c: 80.0% predicted, 50.0% actual; "
        "b: 80.0% predicted, 99.0% actual; d: 80.0% predicted, 68.0% actual; and 1 more), "
        "corrected for 4 tests (Holm)."
    )


def test_a_p_value_at_the_level_is_not_beyond_chance() -> None:
    """As everywhere, it must be below."""
    rows = [row("a", 0.7, significance(LEVEL, 1)), row("b", 0.8, 0.9)]
    said = "None of 2 groups are miscalibrated beyond noise, corrected for 2 tests (Holm)."
    assert group_sentence(rows, 2, LEVEL) == said


def test_one_group_is_not_adjusted_for() -> None:
    """A single look needs no adjustment, and is not called one of one."""
    assert (
        group_sentence([row("a", 0.8, 0.9)], 1, LEVEL) == "The only group is not miscalibrated beyond noise."
    )
    off = group_sentence([row("a", 0.7, 0.001)], 1, LEVEL)
    assert off == "The only group is miscalibrated beyond noise (a: 80.0% predicted, 70.0% actual)."
