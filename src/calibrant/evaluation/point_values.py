"""The quantities without intervals: what many runs are summarised by, in a fraction of the time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from calibrant import metrics
from calibrant.calibrators import Calibrator
from calibrant.evaluation.arguments import as_judged, no_labels
from calibrant.evaluation.fitting.recommend import UNCALIBRATED
from calibrant.evaluation.fitting.templates import FIT_FAILURES, FittedCalibrator, Labelled, templates
from calibrant.evaluation.judging.measure import measure
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.pairing import test_of
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.quantities import AUROC, BRIER, ECE, MCE, optional_keys
from calibrant.evaluation.result import Arm, Kind
from calibrant.evaluation.source import samples_after
from calibrant.evaluation.stages import arm_of
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import to_repair


@dataclass(frozen=True, kw_only=True)
class PointValues:
    """Every quantity of the test split, as the predictions came and after each calibrator.

    Attributes:
        values: By arm (``"uncalibrated"``, then the calibrators) and key; None where there is no value.
        reasons: Why there is none, by arm and key.
        parameters: What was fitted, by arm.
        failures: Why a calibrator could not be fitted, by arm.
        labels: Where samples have several labels, ``auroc``, ``ece``, ``mce`` and ``brier`` of each, by arm
            and the label's name; None where a label occurs with all samples or with none.
    """

    values: Mapping[str, Mapping[str, float | None]]
    reasons: Mapping[str, Mapping[str, str]]
    parameters: Mapping[str, Mapping[str, Any]]
    failures: Mapping[str, str]
    labels: Mapping[str, Mapping[str, Mapping[str, float | None]]]


def point_values(
    predictions: Predictions,
    *,
    calibrators: Sequence[str | Calibrator] | None = None,
    num_bins: int = 15,
) -> PointValues:
    """Fit calibrators on the calibration split and compute every quantity on the test split.

    Args:
        predictions: With both splits.
        calibrators: By name or as objects; by default temperature and focal temperature scaling.
        num_bins: Bins of the binned errors.

    Raises:
        InputError: If there are no labels, no calibration split, or a calibrator is for other predictions.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(3, size=400)
        >>> logits = 4 * np.eye(3)[labels] + 3 * rng.normal(size=(400, 3))
        >>> samples = Predictions(logits=logits, labels=labels, split=np.arange(400) % 2)
        >>> found = point_values(samples, calibrators=["temperature"])
        >>> round(found.values["uncalibrated"]["ece"], 3), round(found.values["temperature"]["ece"], 3)
        (0.129, 0.048)
        >>> round(found.parameters["temperature"]["temperature"], 2)
        1.87
    """
    test, held_out = as_judged(predictions.test), to_repair(predictions.calibration)
    if test.labels is None:
        raise no_labels(predictions)
    wanted = templates(list(calibrators) if calibrators else None, test.kind)
    data = Labelled.of(held_out)
    values: dict[str, Mapping[str, float | None]] = {}
    reasons: dict[str, Mapping[str, str]] = {}
    parameters: dict[str, Mapping[str, Any]] = {}
    failures: dict[str, str] = {}
    labels: dict[str, Mapping[str, Mapping[str, float | None]]] = {}

    def judge(fitted: FittedCalibrator | None) -> None:
        name = UNCALIBRATED if fitted is None else fitted.name
        samples = samples_after(test, num_bins, fitted)
        reduced = samples.reduced((), optional_keys())
        found = {each.key: reduced.values.get(each.key) for each in reduced.quantities}
        values[name] = {
            key: value if value is not None and math.isfinite(value) else None for key, value in found.items()
        }
        if test.kind == "multilabel":
            probs = test.probs if samples.calibrate is None else samples.calibrate(test.scores)
            labels[name] = _of_labels(test, probs, num_bins)
        missing = [key for key, value in values[name].items() if value is None]
        if missing:
            reasons[name] = {key: reduced.reasons.get(key, f"it is {found[key]}") for key in missing}

    judge(None)
    for template in wanted:
        try:
            fitted = template.fit(data)
        except FIT_FAILURES as error:
            failures[template.name] = str(error)
            continue
        parameters[template.name] = dict(fitted.fit_result_.parameters)
        judge(FittedCalibrator(template, fitted, None))
    return PointValues(
        values=values, reasons=reasons, parameters=parameters, failures=failures, labels=labels
    )


def _of_labels(test: Predictions, probs: Tensor, num_bins: int) -> dict[str, dict[str, float | None]]:
    outcomes, probs = test.labels, probs.double()
    assert outcomes is not None  # noqa: S101 - point_values asked
    found: dict[str, Sequence[Tensor | None]] = {
        AUROC.key: metrics.auroc(probs, outcomes, average="none"),
        ECE.key: list(metrics.expected_calibration_error(probs, outcomes, num_bins=num_bins, average="none")),
        MCE.key: list(metrics.maximum_calibration_error(probs, outcomes, num_bins=num_bins, average="none")),
        BRIER.key: list(metrics.brier_score(probs, outcomes, average="none")),
    }
    names = test.class_names or [str(place) for place in range(probs.shape[1])]
    return {
        name: {
            key: None if (value := each[place]) is None or not value.isfinite() else value.item()
            for key, each in found.items()
        }
        for place, name in enumerate(names)
    }


def judged_as_it_is(
    predictions: Predictions,
    *,
    positive_class: int | str | None = None,
    num_bins: int = 15,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[Kind, int, Arm]:
    """Kind, number of samples judged, and curves, classes and shapes; the test split where there is one."""
    test = test_of(as_judged(predictions, positive_class))
    procedure = Procedure(
        kind=test.kind,
        num_bins=num_bins,
        num_resamples=2,  # of the metrics' intervals, which nobody sees
        num_draws=1000,
        level=level,
        seed=seed,
        intervals="percentile",
    )
    measured = measure(reduce_predictions(test, num_bins), procedure)
    names = tuple(str(name) for name in test.class_names or range(test.num_classes or 0))
    return test.kind, test.num_samples, arm_of(None, measured, None, names, procedure)
