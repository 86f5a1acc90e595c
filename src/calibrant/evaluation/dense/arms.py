"""Arms judged from sums."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.evaluation.fit import Fitted
from calibrant.evaluation.fitting.recommend import UNCALIBRATED
from calibrant.evaluation.judge import Judged, arm_of
from calibrant.evaluation.judging.measure import Measured, measure
from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.result import Arm


def judged_arms(fitted: Fitted, reduced: Iterable[Reduced], num_test: int) -> Judged:
    """What was reduced, without a calibrator and with each in turn, with intervals and beside chance."""
    prepared = fitted.prepared
    arms: list[Arm] = []
    first: Measured | None = None
    for each, arm in zip(reduced, (None, *fitted.calibrators), strict=True):
        prepared.steps.next(f"judging {UNCALIBRATED if arm is None else arm.name}")
        measured = measure(each, prepared.procedure, prepared.steps.within)
        arms.append(arm_of(arm, measured, first, prepared))
        first = first or measured
    prepared.steps.finish()
    if first is None:
        raise RuntimeError("no arm was judged")
    return Judged(
        fitted=fitted, arms=tuple(arms), uncalibrated=first, num_test=num_test, out_of_distribution=None
    )
