"""Out-of-distribution detection by the scores of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from calibrant._math.drawing import cluster_codes, num_units, resampled_counts
from calibrant._math.errors import InputError
from calibrant.calibrators import Calibrator
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.fitting.split import has_both_parts
from calibrant.evaluation.fitting.templates import UNCALIBRATED, FittedCalibrator
from calibrant.evaluation.judging.class_table import ROW_BLOCK
from calibrant.evaluation.judging.diagrams import thinned_roc
from calibrant.evaluation.phrases import span
from calibrant.evaluation.resampling.events import Indices, Vector, auroc_influence, standard_error
from calibrant.evaluation.resampling.intervals import centred_interval, normal_interval
from calibrant.evaluation.resampling.resamples import Stream, block_bounds, generator
from calibrant.evaluation.result import Detection, Estimate, OutOfDistribution, between
from calibrant.metrics import RocCurve, out_of_distribution_scores
from calibrant.metrics.out_of_distribution import OutOfDistributionScore, Ranking
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import to_repair

Clusters: TypeAlias = tuple[Indices | None, Indices | None]
Masses: TypeAlias = tuple[Vector, Vector]  # weights of the test samples, and of the foreign ones

TRUE_POSITIVE_RATE = 0.95
NEED_LOGITS: tuple[OutOfDistributionScore, ...] = ("max_logit", "energy")
NAMES: Mapping[OutOfDistributionScore, str] = {
    "entropy": "entropy",
    "max_probability": "maximum probability",
    "max_logit": "maximum logit",
    "energy": "energy",
}


def detect(
    test: Predictions,
    foreign: Predictions,
    score: OutOfDistributionScore | None,
    repaired: Sequence[FittedCalibrator],
    procedure: Procedure,
) -> OutOfDistribution:
    """Score both kinds of samples, uncalibrated and after each calibrator that leaves a score.

    The AUROC has DeLong's interval, the other numbers bootstrap intervals from resamples of each kind apart;
    all arms share the resamples, so changes are paired. A kind that has clusters is resampled by them, and
    influences on the AUROC are summed over them.
    """
    foreign = foreign.test if has_both_parts(foreign) else foreign
    _check_same_problem(test, foreign)
    if score is None:
        score = "max_probability" if test.kind == "top_label" else "entropy"
    arms = [(UNCALIBRATED, "Uncalibrated", _scores(test, score), _scores(foreign, score))]
    if score in {"entropy", "max_probability"}:  # a calibrator gives probabilities: they have no logits
        for each in repaired:
            turn = each.cross_fitted
            inside = _scores(test, score, each.calibrator) if turn is None else _scores(turn, score)
            arms.append((each.name, each.title, inside, _scores(foreign, score, each.calibrator)))
    masses = (_masses(test), _masses(foreign))
    clusters = (_clusters(test), _clusters(foreign))
    together = np.concatenate(masses), _together(clusters, masses)
    level = procedure.level
    judged = [_judge(inside, outside, masses, clusters, procedure) for _, _, inside, outside in arms]
    found = [
        Detection(
            name=name,
            title=title,
            metrics=_estimates(arm, None, *together, level),
            change=_estimates(arm, judged[0], *together, level) if place else {},
            roc=arm.roc,
        )
        for place, ((name, title, *_), arm) in enumerate(zip(arms, judged, strict=True))
    ]
    return OutOfDistribution(
        score=score,
        num_in=test.num_samples,
        num_out=foreign.num_samples,
        source=foreign.source,
        arms=tuple(found),
        sentence=_sentence(found[0], score, test.num_samples, foreign, level),
    )


def _check_same_problem(test: Predictions, foreign: Predictions) -> None:
    name = "" if foreign.source is None else f" ({foreign.source.name})"
    if foreign.kind != test.kind:
        raise InputError(f"`ood`{name} must be {test.kind} as the predictions are; got {foreign.kind}.")
    if foreign.num_classes != test.num_classes:
        raise InputError(
            f"`ood`{name} must have the {test.num_classes} classes of the predictions; "
            f"got {foreign.num_classes}."
        )


def _scores(
    predictions: Predictions, score: OutOfDistributionScore, calibrator: Calibrator | None = None
) -> Vector:
    if predictions.kind == "top_label":
        if score != "max_probability":
            raise InputError(
                f'`ood_score` must be "max_probability" if only confidences are known; got "{score}".'
            )
        if calibrator is not None:
            return 1 - calibrator.predict_proba(to_repair(predictions).scores).numpy()
        return 1 - predictions.confidence.numpy()
    several, width = predictions.kind == "multilabel", predictions.num_classes or 1
    found = np.empty(predictions.num_samples)
    for start, stop in block_bounds(len(found), ROW_BLOCK // width):
        rows = slice(start, stop)
        if calibrator is not None:
            known = {"probs": calibrator.predict_proba(predictions.scores_of(rows))}
        elif predictions.space == "logits":
            known = {"logits": predictions.scores_of(rows)}
        else:
            known = {"probs": predictions.probs_of(rows)}
        found[rows] = out_of_distribution_scores(**known, score=score, multilabel=several).numpy()
    return found


def _masses(predictions: Predictions) -> Vector:
    return np.ones(predictions.num_samples) if predictions.weights is None else predictions.weights.numpy()


@dataclass(frozen=True)
class _Judged:
    values: dict[str, float]
    spread: dict[str, Vector]  # resampled values; of the AUROC the influence of each sample
    roc: RocCurve


def _judge(
    inside: Vector, outside: Vector, masses: Masses, clusters: Clusters, procedure: Procedure
) -> _Judged:
    scores = np.concatenate([inside, outside])
    is_foreign = np.repeat([False, True], [len(inside), len(outside)])
    area = auroc_influence(scores, is_foreign, np.concatenate(masses))
    if area is None:
        raise InputError("`weights` must leave samples of both kinds.")
    as_foreign, as_familiar = Ranking.of(scores), Ranking.of(-scores)  # sorted once for all resamples

    def rates(inside: Vector, outside: Vector) -> dict[str, float]:
        foreign, familiar = as_foreign.detection(inside, outside), as_familiar.detection(outside, inside)
        return {
            "aupr": foreign.average_precision(),
            "aupr_in": familiar.average_precision(),
            "fpr_at_95": foreign.false_positive_rate(TRUE_POSITIVE_RATE),
            "fpr_at_95_in": familiar.false_positive_rate(TRUE_POSITIVE_RATE),
        }

    rng = generator(procedure.seed, Stream.BOOTSTRAP)
    drawn = [rates(*_resampled(masses, clusters, rng)) for _ in range(procedure.num_resamples)]
    own = _padded(*masses)
    return _Judged(
        values={"auroc": area[0], **rates(*own)},
        spread={"auroc": area[1], **{name: np.array([each[name] for each in drawn]) for name in drawn[0]}},
        roc=thinned_roc(as_foreign.detection(*own)),
    )


def _estimates(
    arm: _Judged, first: _Judged | None, weights: Vector, clusters: Indices | None, level: float
) -> dict[str, Estimate]:
    """Estimates of the values, or of their differences from the first arm."""
    bounds = (0.0 if first is None else -1.0, 1.0)
    found: dict[str, Estimate] = {}
    for name, value in arm.values.items():
        spread = arm.spread[name]
        if first is not None:
            value, spread = value - first.values[name], spread - first.spread[name]
        if name == "auroc":
            ends = normal_interval(value, standard_error(spread, weights, clusters), level, bounds)
        else:
            ends = centred_interval(value, spread, level, bounds)
        found[name] = between(value, ends, "no interval: undefined in the resamples")
    return found


def _resampled(masses: Masses, clusters: Clusters, rng: np.random.Generator) -> Masses:
    """Weights of a resample of each kind; draws again if a kind is left without weight."""
    while True:
        inside, outside = (
            mass * resampled_counts(rng, num_units(len(mass), codes), codes)
            for mass, codes in zip(masses, clusters, strict=True)
        )
        if inside.any() and outside.any():
            return _padded(inside, outside)


def _clusters(predictions: Predictions) -> Indices | None:
    return None if predictions.clusters is None else cluster_codes(predictions.clusters)


def _together(clusters: Clusters, masses: Masses) -> Indices | None:
    """Cluster codes of both kinds; unclustered samples are clusters of their own."""
    if clusters[0] is None and clusters[1] is None:
        return None
    inside, outside = (
        np.arange(len(mass)) if codes is None else codes for codes, mass in zip(clusters, masses, strict=True)
    )
    return np.concatenate([inside, outside + inside.max() + 1])


def _padded(inside: Vector, outside: Vector) -> Masses:
    """Pad the weights of each kind with zeros for the samples of the other kind."""
    return np.append(inside, np.zeros(len(outside))), np.append(np.zeros(len(inside)), outside)


def _sentence(
    first: Detection, score: OutOfDistributionScore, num_in: int, foreign: Predictions, level: float
) -> str:
    area = first.metrics["auroc"]
    value = area.value or 0.0
    low, high = (value if end is None else end for end in (area.low, area.high))
    name = "out-of-distribution samples" if foreign.source is None else f"samples of {foreign.source.name}"
    said = (
        f"By {NAMES[score]}, {foreign.num_samples:,} {name} are distinguished from {num_in:,} test samples "
        f"with an AUROC of {value:.3f} ({100 * level:g}% interval {span(area)}; 0.5 is guessing)"
    )
    if low > 0.5:
        return f"{said}."
    if high < 0.5:
        return f"{said}: the model is more confident on them than on its own samples."
    return f"{said}: no better than guessing, as far as these samples can tell."
