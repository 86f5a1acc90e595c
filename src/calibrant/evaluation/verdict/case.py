"""Everything a verdict is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calibrant.evaluation.fitting.recommend import UNCALIBRATED, Recommendation
from calibrant.evaluation.judging.measure import Measured
from calibrant.evaluation.phrases import clearly, percent
from calibrant.evaluation.quantities import CLASSWISE_ECE, ECE, NLL, PREVALENCE
from calibrant.evaluation.result import Arm, GroupRow, Kind, Verdict
from calibrant.evaluation.thresholds import FEW_SAMPLES, TOLERABLE_GAP, beyond_chance

HALF_A_POINT, TENTH = 0.005, 0.1
ERRORS: dict[str, str] = {"classes": CLASSWISE_ECE.key, "positive class": ECE.event_key}
"""The size of a part's error; that of the others is the ECE."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything a verdict is made from."""

    kind: Kind
    arms: Sequence[Arm]
    uncalibrated: Measured
    recommendation: Recommendation | None
    level: float
    num_calibration: int
    num_test: int
    cross_fitted: bool
    warnings: tuple[str, ...] = ()  # what looks wrong with the data
    tolerance: float | None = None  # of calibration errors; None: the default
    useless: bool = False  # whether the probabilities tell no more than the class frequencies
    effective_calibration: float | None = None  # by their weights; None: as many as there are
    one_class: bool  # whether the calibration samples hold a single class

    @property
    def first(self) -> Arm:
        return self.arms[0]

    @property
    def picked(self) -> Arm:
        """The arm chosen on the calibration samples."""
        name = UNCALIBRATED if self.recommendation is None else self.recommendation.name
        return next(arm for arm in self.arms if arm.name == name)

    @property
    def refuted(self) -> bool:
        """True if the test samples contradict the choice.

        Its NLL is clearly worse there; or it is worse, if within noise, and no calibration error clearly
        better, as happens where nearly all is right and a few samples made the choice.
        """
        if self.picked is self.first:
            return False
        before, after = self.first.metrics[NLL.key].value, self.picked.metrics[NLL.key].value
        if before is None or (after is not None and after <= before):
            return False
        change = self.picked.change
        error = ECE.event_key if self.kind == "binary" else ECE.key
        helps = error in change and clearly(change[error]) < 0
        return self.clearly_worse or not helps

    @property
    def clearly_worse(self) -> bool:
        """True if the NLL of the arm chosen is worse on the test samples beyond noise."""
        return self.picked.metrics[NLL.key].value is None or clearly(self.picked.change[NLL.key]) > 0

    @property
    def chosen(self) -> Arm:
        return self.first if self.refuted else self.picked

    def tolerated(self, metric: str) -> float:
        if self.tolerance is not None:
            return self.tolerance
        rate = 1.0
        prevalence = self.first.metrics.get(PREVALENCE.key)
        if self.kind in {"binary", "multilabel"} and prevalence is not None and prevalence.value is not None:
            rate = min(prevalence.value, 1 - prevalence.value)
        elif metric == CLASSWISE_ECE.key:
            rate = 1 / max(1, len(self.first.classes))
        return min(HALF_A_POINT, TENTH * rate)

    def within(self, arm: Arm) -> float | None:
        """The tolerated error, if every error of an arm above noise is below it with its whole interval."""
        failing = [part.name for part in arm.parts if not part.holds]
        keys = [ERRORS.get(name, ECE.key) for name in failing]
        ends = [arm.metrics[key].high for key in keys if key in arm.metrics]
        if not failing or "groups" in failing or len(ends) < len(failing):
            return None
        limits = [self.tolerated(key) for key in keys]
        small = all(end is not None and end < limit for end, limit in zip(ends, limits, strict=True))
        return min(limits) if small else None

    @property
    def too_few(self) -> bool:
        """True if calibrators were tried, but on too few samples to choose among them."""
        return self.recommendation is None and len(self.arms) > 1

    @property
    def on_few(self) -> str:
        """`` on 3 samples`` if there are so few that the reader must know; else empty."""
        plural = "" if self.num_test == 1 else "s"
        return f" on {self.num_test} sample{plural}" if self.num_test < FEW_SAMPLES else ""

    @property
    def fitted_on(self) -> str:
        """``1 calibration sample``."""
        told = f"{self.num_calibration:,} calibration sample{'' if self.num_calibration == 1 else 's'}"
        effective = self.effective_calibration
        if effective is None or effective >= self.num_calibration - 0.05:
            return told
        return f"{told} of an effective size of {effective:.1f}"

    @property
    def repaired(self) -> bool:
        return self.chosen is not self.first


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


def not_for_all(bad: Sequence[GroupRow]) -> str:
    """Sentence on groups that are off where no calibrator for all samples fixes them."""
    one = "One calibrator for all samples doesn't fix"
    return f"{one} {_names(bad)}: test one per group with --by-group."


def no_fix(bad: Sequence[GroupRow]) -> str:
    """Sentence on groups that are off where one calibrator per group did not help."""
    names, are, them = _names(bad), *(("is", "it") if len(bad) == 1 else ("are", "them"))
    said = f"{names[:1].upper()}{names[1:]} {are} off, but no repair tested clearly fixes {them}"
    return f"{said}: none lowers the log loss beyond noise."


def _names(bad: Sequence[GroupRow]) -> str:
    """``group reseller``; of many groups the first."""
    names, more = [row.name for row in bad[:MOST_NAMED]], len(bad) - MOST_NAMED
    if len(bad) == 1:
        return f"group {names[0]}"
    *first, last = [*names, f"{more} more"] if more > 0 else names
    return f"groups {', '.join(first)} and {last}"


def group_sentence(rows: Sequence[GroupRow], num_groups: int, level: float) -> str:
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


def with_group_sentence(
    verdict: Verdict, rows: tuple[GroupRow, ...], groups: Sequence[str] | None, level: float
) -> Verdict:
    """The verdict with the sentence on the groups, before the one that says what to do next."""
    if groups is None or not rows:
        return verdict
    said = group_sentence(rows, len(set(groups)), level)
    place = len(verdict.sentences) - (verdict.repair is None)
    return replace(verdict, sentences=(*verdict.sentences[:place], said, *verdict.sentences[place:]))
