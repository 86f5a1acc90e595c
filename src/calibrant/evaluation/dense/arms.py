"""Arms judged from sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calibrant.evaluation.fit import Fitted
from calibrant.evaluation.fitting.recommend import UNCALIBRATED
from calibrant.evaluation.judge import Judged, arm_of
from calibrant.evaluation.judging.groups import with_groups
from calibrant.evaluation.judging.measure import Measured, measure
from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.result import Arm, GroupRow


def judged_arms(
    fitted: Fitted,
    reduced: Iterable[Reduced],
    num_test: int,
    groups: Sequence[tuple[GroupRow, ...]] = (),
) -> Judged:
    """Reduced predictions with intervals and noise floors, without a calibrator and with each in turn.

    ``groups`` are the rows of each arm, where there are any.
    """
    prepared = fitted.prepared
    arms: list[Arm] = []
    first: Measured | None = None
    calibrators = (None, *fitted.calibrators)
    for each, by_group, arm in zip(reduced, groups or [()] * len(calibrators), calibrators, strict=True):
        prepared.steps.next(f"evaluating {UNCALIBRATED if arm is None else arm.name}")
        measured = measure(each, prepared.procedure, prepared.steps.within)
        arms.append(with_groups(arm_of(arm, measured, first, prepared), by_group, prepared.procedure.level))
        first = first or measured
    prepared.steps.finish()
    if first is None:
        raise RuntimeError("no arm was judged")
    return Judged(
        fitted=fitted, arms=tuple(arms), uncalibrated=first, num_test=num_test, out_of_distribution=None
    )
