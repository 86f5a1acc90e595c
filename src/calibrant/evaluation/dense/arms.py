"""Arms judged from sums."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.evaluation.fit import Fitted
from calibrant.evaluation.fitting.recommend import UNCALIBRATED
from calibrant.evaluation.fitting.templates import FittedCalibrator, fit_summary
from calibrant.evaluation.judge import Judged
from calibrant.evaluation.judging.measure import Measured, against_chance, change, measure
from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.judging.shapes import shapes_of_arm
from calibrant.evaluation.prepare import Prepared
from calibrant.evaluation.result import Arm


def judged_arms(fitted: Fitted, reduced: Iterable[Reduced], names: tuple[str, ...], num_test: int) -> Judged:
    """What was reduced, without a calibrator and with each in turn, with intervals and beside chance."""
    prepared = fitted.prepared
    arms: list[Arm] = []
    first: Measured | None = None
    for each, arm in zip(reduced, (None, *fitted.calibrators), strict=True):
        prepared.steps.next(f"judging {UNCALIBRATED if arm is None else arm.name}")
        measured = measure(each, prepared.procedure, prepared.steps.within)
        arms.append(_arm(arm, measured, first, prepared, names))
        first = first or measured
    prepared.steps.finish()
    if first is None:
        raise RuntimeError("no arm was judged")
    return Judged(
        fitted=fitted, arms=tuple(arms), uncalibrated=first, num_test=num_test, out_of_distribution=None
    )


def _arm(
    fitted: FittedCalibrator | None,
    measured: Measured,
    first: Measured | None,
    prepared: Prepared,
    names: tuple[str, ...],
) -> Arm:
    chance = against_chance(measured.noise, names)
    level = prepared.procedure.level
    return Arm(
        name=UNCALIBRATED if fitted is None else fitted.name,
        title="Uncalibrated" if fitted is None else fitted.title,
        parameters={} if fitted is None else dict(fitted.calibrator.fit_result_.parameters),
        fit=None if fitted is None else fit_summary(fitted.calibrator),
        metrics=measured.metrics,
        change={} if first is None else change(measured, first, level),
        null=chance.null,
        curves=chance.curves,
        classes=chance.classes,
        shapes=shapes_of_arm(measured.reduced, prepared.procedure),
        groups=(),
        parts=chance.parts,
    )
