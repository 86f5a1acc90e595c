"""Predictions judged without intervals and without calibrators: what their figures are drawn from."""

from __future__ import annotations

from calibrant.evaluation.arguments import as_judged
from calibrant.evaluation.fitting.recommend import UNCALIBRATED
from calibrant.evaluation.judging.measure import against_chance, measure
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.judging.shapes import shapes_of_arm
from calibrant.evaluation.pairing import test_of
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.result import Arm, Kind
from calibrant.predictions import Predictions


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
    reduced = reduce_predictions(test, num_bins)
    measured = measure(reduced, procedure)
    names = tuple(str(name) for name in test.class_names or range(test.num_classes or 0))
    chance = against_chance(measured.noise, names)
    arm = Arm(
        name=UNCALIBRATED,
        title="Uncalibrated",
        parameters={},
        fit=None,
        metrics=measured.metrics,
        change={},
        null=chance.null,
        curves=chance.curves,
        classes=chance.classes,
        shapes=shapes_of_arm(reduced, procedure),
        parts=chance.parts,
    )
    return test.kind, test.num_samples, arm
