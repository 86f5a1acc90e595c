"""Repairs of groups: one calibrator for all, one per group, and multicalibration."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from calibrant._math.drawing import cluster_codes
from calibrant._math.errors import InputError, without_warnings
from calibrant._math.scores import FLOOR, negative_log_likelihoods, top_label
from calibrant._math.simplex import log_softmax
from calibrant.calibrators import build, fit_groups, multicalibrate
from calibrant.calibrators.cohorts.multicalibration import EVERYONE, memberships
from calibrant.evaluation.fitting.split import halves, has_both_parts
from calibrant.evaluation.phrases import (
    bad_groups,
    clearly,
    no_fix,
    not_for_all,
    number,
    title_within,
    with_interval,
)
from calibrant.evaluation.quantity import ANYTHING
from calibrant.evaluation.resampling.events import Indices, Vector, mean_and_variance
from calibrant.evaluation.resampling.intervals import normal_interval
from calibrant.evaluation.result import Estimate, Evaluation, Kind, Repair, between
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import to_repair

FEWEST = 20
ARMS = ("uncalibrated", "one for all", "one per group", "multicalibrated")
OF_EACH = 2  # the place of one per group; before it are those that it must beat


@dataclass(frozen=True, kw_only=True)
class GroupRepair:
    """Predicted minus actual rate of a group under each repair."""

    name: str  # "" are all samples
    count: int  # test samples
    gaps: tuple[Estimate, ...]  # in the order of ARMS: predicted minus actual; normal intervals
    losses: tuple[Estimate, ...]  # the NLL of each arm
    behind: tuple[Estimate, ...]  # above that of one calibrator per group, paired


@dataclass(frozen=True)
class ByGroup:
    """The repairs of all groups by one method."""

    method: str
    for_all: str
    num_fitted: int  # samples
    rows: tuple[GroupRepair, ...]


def usual_by_group(kind: Kind) -> str | None:
    """The default calibrator of each group: Platt scaling for an event, else ``None``.

    Groups differ in their base rates, which a temperature cannot move, and such errors can cancel out over
    all samples.
    """
    return "platt" if kind == "binary" else None


def group_repairs(
    predictions: Predictions,
    *,
    method: str = "temperature",
    for_all: str | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[GroupRepair, ...]:
    """Fit repairs on the calibration samples, and test each group on the test samples.

    A sample can be in several groups: its text holds their names, separated by semicolons. The tested
    probability is that of the positive class, or with several classes the confidence. There is one calibrator
    per text. Multicalibration starts from the calibrator for all and uses each name. If there are clusters,
    intervals are of whole clusters.

    Args:
        predictions: With labels and groups; without a split, halves are drawn.
        method: The calibrator of each group.
        for_all: The calibrator of all samples; by default ``method``.
        level: Level of the intervals, without correction for the number of groups.
        seed: Random seed of the halves.

    Returns:
        One row for all samples and one for each group, the largest first.

    Raises:
        InputError: If there are no groups or labels, or they are several labels for each sample.
    """
    if predictions.groups is None:
        raise InputError("`groups` must be given, one name per sample; got none.")
    if predictions.kind == "multilabel":
        raise InputError("repairs by group need one label per sample; got several.")
    given = to_repair(predictions)
    if has_both_parts(given):
        fit, test = given.calibration, given.test
    elif given.num_samples < FEWEST:
        raise InputError(f"repairs by group need {FEWEST} samples or more; got {given.num_samples}.")
    else:
        fit, test = halves(given, seed)
    own, names = fit.groups or (), test.groups or ()
    if fit.labels is None or test.labels is None:
        raise InputError("`labels` must be given to evaluate predictions; got none.")
    calibrator = build(for_all or method)
    with without_warnings():
        pooled = calibrator.fit(fit.scores, fit.labels, weights=fit.weights)
        by_group = fit_groups(
            method, fit.scores, fit.labels, groups=list(own), weights=fit.weights, unknown="pooled"
        )
        several = multicalibrate(
            pooled(fit.scores.to(torch.float64)), fit.labels, groups=list(own), weights=fit.weights
        )
    scores = test.scores.to(torch.float64)
    arms = (
        scores.sigmoid() if scores.ndim == 1 else log_softmax(scores).exp(),
        pooled.predict_proba(scores),
        by_group.predict_proba(scores, groups=list(names)),
        several.predict_proba(pooled(scores), groups=list(names)),
    )
    residuals = [_residuals(probs, test.labels) for probs in arms]
    most = -math.log(FLOOR)  # of a probability of zero
    losses = [negative_log_likelihoods(probs, test.labels).clamp(max=most).numpy() for probs in arms]
    behind = [each - losses[OF_EACH] for each in losses]
    weights = np.ones(len(names)) if test.weights is None else test.weights.numpy()
    masks = memberships(list(names), len(names))
    codes = None if test.clusters is None else cluster_codes(test.clusters)

    def row(name: str) -> GroupRepair:
        inside = masks[name] & (weights > 0)
        gaps, of_losses, more = (
            tuple(
                _mean(each[inside], weights[inside], None if codes is None else codes[inside], level)
                for each in parts
            )
            for parts in (residuals, losses, behind)
        )
        return GroupRepair(name=name, count=int(inside.sum()), gaps=gaps, losses=of_losses, behind=more)

    order = sorted(masks, key=lambda name: (name != EVERYONE, -int(masks[name].sum()), name))
    return tuple(row(name) for name in order)


def _residuals(probs: Tensor, labels: Tensor) -> Vector:
    if probs.ndim == 1:
        return (probs - labels).numpy()
    top = top_label(probs, labels)
    return (top.confidence - top.correct.to(torch.float64)).numpy()


def _mean(values: Vector, weights: Vector, clusters: Indices | None, level: float) -> Estimate:
    """The mean with a normal interval; of fewer than two samples or clusters there is none."""
    if len(values) < 2:
        return Estimate(value=float(values.mean()) if len(values) else None, reason="too few samples")
    total = float(weights.sum())
    mean = float(weights @ values / total)
    error = float(np.sqrt((weights**2) @ (values - mean) ** 2)) / total
    if clusters is not None:
        names, codes = np.unique(clusters, return_inverse=True)
        if len(names) < 2:
            return Estimate(value=mean, reason="too few clusters")
        error = math.sqrt(mean_and_variance(values, weights, codes)[1])
    return between(mean, normal_interval(mean, error, level, ANYTHING))


def title_of(repairs: ByGroup) -> str:
    """Title: the methods, and the numbers of fitted and tested samples."""
    fitted, tested = f"{repairs.num_fitted:,} samples", f"{repairs.rows[0].count:,}"
    methods = _title(repairs.method)
    if repairs.for_all != repairs.method:
        methods = f"{methods} per group, {_title(repairs.for_all)} for all"
    return (
        f"Repairs by group: {methods}, fitted on {fitted} and tested on {tested} others. "
        "Shown: predicted minus actual rate, and log loss."
    )


def _title(method: str) -> str:
    return title_within(method, build(method).title)


def said_of(repairs: ByGroup, evaluation: Evaluation) -> str:
    """Sentences: how many groups are off under each repair, and why the verdict counts others."""
    groups = [row for row in repairs.rows if row.name != EVERYONE]
    off = [sum(clearly(row.gaps[k]) != 0 for row in groups) for k in range(len(ARMS))]
    counts = ", ".join(f"{count} ({arm})" for count, arm in zip(off, ARMS, strict=True))
    tested = repairs.rows[0].count
    told = f"Groups off on average, out of {len(groups)}, on these {tested:,} samples: {counts}."
    judged = len(bad_groups(evaluation.arms[0].groups, evaluation.settings.level))
    if judged == off[0]:
        return told
    if tested < evaluation.num_test:
        why = f"it tests all {evaluation.num_test:,} samples, not only these"
    else:
        why = "it tests the whole scale of each group, and corrects for the number of groups"
    return f"{told} The verdict finds {judged or 'none'} off before any repair: {why}."


def with_repairs_by_group(
    evaluation: Evaluation, predictions: Predictions, *, level: float, seed: int
) -> tuple[Evaluation, ByGroup]:
    """Fit repairs by group, and adapt the evaluation's advice to them."""
    chosen = evaluation.verdict.repair
    for_all = None if chosen is None else chosen.method
    method = usual_by_group(to_repair(predictions).kind) or for_all or "temperature"
    rows = group_repairs(predictions, method=method, for_all=for_all, level=level, seed=seed)
    repairs = ByGroup(method, for_all or method, predictions.num_samples - rows[0].count, rows)
    if all(clearly(loss) > 0 for loss in rows[0].behind[:OF_EACH]):
        return _recommending(evaluation, rows[0], method, predictions), repairs
    return _without_fix(evaluation), repairs


def _recommending(
    evaluation: Evaluation, everyone: GroupRepair, method: str, predictions: Predictions
) -> Evaluation:
    """Recommend one calibrator per group: log loss is lower beyond noise than with one for all or none."""
    losses = [loss.value or 0.0 for loss in everyone.losses]
    lowest = min(range(OF_EACH), key=lambda place: losses[place])
    source, verdict = evaluation.source, evaluation.verdict
    repair = verdict.repair or Repair(
        method=method,
        file=None if source is None else source.path or source.name,
        all_rows=not predictions.has_calibration,
        format="npz" if source is None else source.format,
        space=predictions.space,
    )
    said = (
        f"One calibrator per group lowers the log loss of the test samples from {number(losses[lowest])} "
        f"({ARMS[lowest]}) to {number(losses[OF_EACH])}, by {with_interval(everyone.behind[lowest])}."
    )
    if repair.method != method:
        said += (
            f" The method is {method}: {repair.method} is best if all groups share one calibrator, "
            "but there errors in opposite directions cancel out."
        )
    falls = f"falls from {number(losses[0])} to {number(losses[OF_EACH])}"
    line = f"Best fix: {_title(method)} per group. Log loss {falls}."
    sentences = verdict.sentences if verdict.repair else verdict.sentences[:-1]
    changed = replace(
        verdict,
        line=line,
        repair=replace(repair, method=method, by_group=True),
        reason=said,
        sentences=(*sentences, said),
    )
    return replace(evaluation, verdict=changed)


def _without_fix(evaluation: Evaluation) -> Evaluation:
    """The evaluation without the advice to test one calibrator per group."""
    verdict, bad = evaluation.verdict, bad_groups(evaluation.arms[0].groups, evaluation.settings.level)
    if not bad:
        return evaluation
    untried, said = not_for_all(bad), no_fix(bad)
    sentences = tuple(said if each == untried else each for each in verdict.sentences)
    changed = replace(verdict, line=verdict.line.replace(untried, said), sentences=sentences)
    return replace(evaluation, verdict=changed)
