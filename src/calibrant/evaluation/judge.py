"""The third stage: judge the test samples as they came and after each calibrator."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.evaluation.arguments import as_judged
from calibrant.evaluation.fit import Fitted
from calibrant.evaluation.fitting.recommend import UNCALIBRATED
from calibrant.evaluation.fitting.templates import FittedCalibrator, fit_summary
from calibrant.evaluation.judging.cross_fitted import widened
from calibrant.evaluation.judging.groups import group_rows, with_groups
from calibrant.evaluation.judging.measure import Measured, against_chance, change, measure
from calibrant.evaluation.judging.reduce import Reduced, reduce_predictions
from calibrant.evaluation.judging.shapes import shapes_of_arm
from calibrant.evaluation.out_of_distribution import NEED_LOGITS, detect
from calibrant.evaluation.prepare import Prepared
from calibrant.evaluation.result import Arm, OutOfDistribution
from calibrant.predictions import Predictions
from calibrant.predictions.repair_form import repaired, to_repair


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Every arm with its numbers."""

    fitted: Fitted
    arms: tuple[Arm, ...]
    uncalibrated: Measured  # what the verdict needs of the first arm
    num_test: int  # samples, or positions of images
    out_of_distribution: OutOfDistribution | None


def judge(fitted: Fitted) -> Judged:
    """Judge every arm on the same resamples, and how well samples of another kind are told apart."""
    prepared = fitted.prepared
    request, test = prepared.request, prepared.split.test
    told = prepared.steps.watching(test)
    prepared.steps.next("evaluating the predictions")
    reduced = _reduce(None, prepared)
    uncalibrated = measure(reduced, prepared.procedure, told)
    arms = [arm_of(None, uncalibrated, None, prepared)]
    for each in fitted.calibrators:
        prepared.steps.next(f"evaluating {each.name}")
        reduced = _reduce(each, prepared)
        arms.append(arm_of(each, measure(reduced, prepared.procedure, told), uncalibrated, prepared))
    detected = None
    if request.ood is not None:
        prepared.steps.next("detecting out-of-distribution samples")
        detected = detect(*_told_apart(prepared), request.ood_score, fitted.calibrators, prepared.procedure)
    prepared.steps.finish()
    return Judged(
        fitted=fitted,
        arms=tuple(arms),
        uncalibrated=uncalibrated,
        num_test=test.num_samples,
        out_of_distribution=detected,
    )


def _told_apart(prepared: Prepared) -> tuple[Predictions, Predictions]:
    """The test samples and the foreign ones; as they were given where their logits are to be looked at."""
    request, given = prepared.request, prepared.test_as_given
    foreign = given if request.ood is None else request.ood
    if request.ood_score in NEED_LOGITS and foreign.kind == given.kind:
        return given, foreign
    return prepared.split.test, as_judged(foreign, request.positive_class)


def _reduce(fitted: FittedCalibrator | None, prepared: Prepared) -> Reduced:
    """The test samples as they came, after a calibrator, or as judged by those that were fitted on others."""
    samples, calibrate = prepared.split.test, None
    if fitted is not None and fitted.in_turn is not None:
        samples = fitted.in_turn
    elif fitted is not None and samples.kind == "top_label":
        samples = repaired(samples, fitted.calibrator.predict_proba(to_repair(samples).scores))
    elif fitted is not None:
        calibrate = fitted.calibrator.predict_proba
    procedure = prepared.procedure
    return reduce_predictions(samples, procedure.num_bins, calibrate, metrics=procedure.metrics)


def arm_of(
    fitted: FittedCalibrator | None, measured: Measured, uncalibrated: Measured | None, prepared: Prepared
) -> Arm:
    """One arm; without a calibrator the first, against which the others change."""
    procedure, test = prepared.procedure, prepared.split.test
    names = tuple(str(name) for name in test.class_names or range(test.num_classes or 0))
    chance = against_chance(measured.noise, names)
    changes = {} if uncalibrated is None else change(measured, uncalibrated, procedure.level)
    if fitted is not None and fitted.in_turn is not None:
        number, result = measured.reduced.effective_samples, fitted.calibrator.fit_result_
        changes = widened(changes, measured.metrics, result, number, procedure.level)
    arm = Arm(
        name=UNCALIBRATED if fitted is None else fitted.name,
        title="Uncalibrated" if fitted is None else fitted.title,
        parameters={} if fitted is None else dict(fitted.calibrator.fit_result_.parameters),
        fit=None if fitted is None else fit_summary(fitted.calibrator),
        metrics=measured.metrics,
        change=changes,
        null=chance.null,
        curves=chance.curves,
        classes=chance.classes,
        shapes=shapes_of_arm(measured.reduced, procedure),
        parts=chance.parts,
    )
    return with_groups(arm, group_rows(measured.reduced, test.groups, procedure), procedure.level)
