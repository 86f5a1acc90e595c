"""Proper scores and their parts: miscalibration, discrimination, uncertainty; calibration and refinement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, row_slices
from calibrant._math.checks import Checked, check_choice, check_probs
from calibrant._math.convex_minimum import convex_minimum
from calibrant._math.errors import InputError
from calibrant._math.isotonic import IsotonicBlocks, isotonic_blocks
from calibrant._math.scores import FLOOR, brier_scores, negative_log_likelihoods, weighted_mean
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import Average, Vector, check_events_average, events, one_event, vector

__all__ = [
    "CorpReliabilityCurve",
    "RefinementDecomposition",
    "ScoreDecomposition",
    "TemperatureDecomposition",
    "VariationalError",
    "corp_reliability_curve",
    "refinement_decomposition",
    "score_decomposition",
    "temperature_decomposition",
    "variational_calibration_error",
]

LOWEST, HIGHEST = 1e-4, 1e4  # of the temperature

Score: TypeAlias = Literal["brier", "nll"]

_SCORES = {"brier": brier_scores, "nll": negative_log_likelihoods}


@dataclass(frozen=True)
class ScoreDecomposition:
    """A proper score = miscalibration − discrimination + uncertainty; none of them is negative."""

    score: Float[Tensor, ""] | Float[Tensor, " C"]
    miscalibration: Float[Tensor, ""] | Float[Tensor, " C"]
    discrimination: Float[Tensor, ""] | Float[Tensor, " C"]
    uncertainty: Float[Tensor, ""] | Float[Tensor, " C"]


@suggesting()
def score_decomposition(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    score: Score = "brier",
    classwise: bool = False,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> ScoreDecomposition:
    r"""Miscalibration, discrimination and uncertainty in a proper score, by isotonic regression (CORP).

    .. math::
        S(p) = \underbrace{S(p) - S(\hat p)}_{\mathrm{MCB}}
             - \underbrace{\left( S(\bar y) - S(\hat p) \right)}_{\mathrm{DSC}}
             + \underbrace{S(\bar y)}_{\mathrm{UNC}}

    S is the mean score of an event, :math:`(p - y)^2` or :math:`-\log` of the probability of the outcome. The
    isotonic regression of the outcomes on p, :math:`\hat p`, is the best that any order-preserving
    recalibration could do. The mean outcome is :math:`\bar y`. MCB is the possible gain from recalibration,
    DSC the value of the order of the probabilities, UNC the score of the base rate.

    Classes ``(N, C)`` with labels ``(N,)``: the event is that the top label is right, p its probability (cut
    at 1); with ``classwise=True`` each class against all others. An event ``(N,)``: itself. Several labels
    per sample: every column.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        score: ``"brier"`` or ``"nll"`` (nats).
        classwise: Measure every class, not only the top label.
        average: With ``classwise`` or several labels per sample: ``"macro"`` for the means over the columns,
            ``"none"`` for one value per column. (C times the means of the classwise Brier parts are the parts
            of :func:`~calibrant.metrics.brier_score`.)
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``score``, ``miscalibration``, ``discrimination`` and ``uncertainty``, float64, each a scalar or, for
        ``average="none"``, of shape ``(C,)``. Brier: in ``[0, 1]``, and uncertainty at most 1/4; NLL: in
        ``[0, inf]``, discrimination and uncertainty at most log 2, and where something happened that had
        probability zero score and miscalibration are infinite. They add up to the rounding of the sums.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note: No bins to choose, and the same :math:`\hat p` for every proper score. It is fitted to the sample it
        is judged on, so miscalibration and discrimination are biased upward for small ``N``. A calibrated
        model has MCB of order :math:`N^{-2/3}`. If all outcomes are equal, only MCB is left. Compare with the
        same sample size. O(N log N) time per event; the first call compiles. Not differentiable.

    References:
        Dimitriadis, Gneiting and Jordan, "Stable reliability diagrams for probabilistic classifiers", PNAS
        118, 2021.

    Example:
        >>> import torch
        >>> parts = score_decomposition(torch.tensor([0.2, 0.4, 0.6, 0.9]), torch.tensor([0, 1, 0, 1]))
        >>> [round(x.item(), 4) for x in (parts.score, parts.miscalibration, parts.discrimination)]
        [0.1925, 0.0675, 0.125]
        >>> parts.uncertainty.item()
        0.25
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index, find_top=not classwise)
    check_choice("score", score, tuple(_SCORES))
    check_events_average(average, checked, classwise=classwise)
    each = torch.stack(
        [
            _parts(confidence, outcomes, checked.weights, score)
            for confidence, outcomes in events(checked, classwise=classwise)
        ]
    )  # (columns, 3): score, best score with this order, score of the base rate
    loss, best, base = (each.mean(dim=0) if average == "macro" else each.t()).unbind()
    # Negative only by rounding: the identity and the constant also keep the order.
    return ScoreDecomposition(loss, (loss - best).clamp(min=0), (base - best).clamp(min=0), base)


@dataclass(frozen=True)
class CorpReliabilityCurve:
    """Steps of the isotonic recalibration, one entry per step."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    values: tuple[float, ...]
    counts: tuple[float, ...]


@suggesting()
def corp_reliability_curve(
    probs: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None, ignore_index: int | None = None
) -> CorpReliabilityCurve:
    """The curve of a CORP reliability diagram: the isotonic regression of the outcomes on the probabilities.

    Between ``lower`` and ``upper`` of a step the recalibrated probability is its value; between two steps the
    curve is straight. Its distances from the diagonal are what
    :func:`score_decomposition` calls miscalibration.

    Args:
        probs: Probabilities of the classes ``(N, C)`` (the top label counts) or of an event ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1}, shape ``(N,)``.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``lower`` and ``upper`` (the lowest and the highest probability in each step), ``values`` (the mean
        outcome of the step, rising strictly from step to step) and ``counts`` (samples, or weight, in it).

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or samples have several labels
            (pass one column of each: ``probs[:, k], labels[:, k]``).

    Note:
        Consistent without bins or a bandwidth to choose, of about :math:`N^{1/3}` steps. The first and the
        last step tend to lie too low and too high. O(N log N) time.

    References:
        Dimitriadis, Gneiting and Jordan, "Stable reliability diagrams for probabilistic classifiers", PNAS
        118, 2021.

    Example:
        >>> import torch
        >>> curve = corp_reliability_curve([0.25, 0.5, 0.625, 0.875], [0, 1, 0, 1])
        >>> curve.lower, curve.upper, curve.values, curve.counts
        ((0.25, 0.5, 0.875), (0.25, 0.625, 0.875), (0.0, 0.5, 1.0), (1.0, 2.0, 1.0))
    """
    blocks = _blocks(*one_event(probs, labels, weights, ignore_index))
    return CorpReliabilityCurve(*(tuple(column.tolist()) for column in blocks))


@dataclass(frozen=True)
class RefinementDecomposition:
    """A proper score = calibration + refinement."""

    score: Float[Tensor, ""]
    calibration: Float[Tensor, ""]
    refinement: Float[Tensor, ""]


@suggesting()
def refinement_decomposition(
    probs: ArrayLike,
    recalibrated: ArrayLike,
    labels: ArrayLike,
    *,
    score: Score = "nll",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> RefinementDecomposition:
    r"""Split a proper score into calibration and refinement ("refine, then calibrate").

    .. math:: S(p) = \underbrace{S(p) - S(g(p))}_{\text{calibration}}
                   + \underbrace{S(g(p))}_{\text{refinement}}

    g is any recalibration: pass its probabilities for the same rows, for instance those of a temperature
    fitted to the calibration split. The least score over all g is the refinement proper; with temperature
    scaling it is an upper bound of it, tight where the model is wrong by a temperature only. Training should
    stop where the refinement is least, not the score: calibration can still be repaired afterwards.

    Unlike :func:`score_decomposition` this judges all classes at once.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        recalibrated: Probabilities after recalibration, of the same shape.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        score: ``"nll"`` (:func:`~calibrant.metrics.negative_log_likelihood`) or ``"brier"``
            (:func:`~calibrant.metrics.brier_score`).
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``score``, ``calibration`` and ``refinement``, scalars, float64; with several labels per sample means
        over the labels. Calibration is negative where the recalibration does harm, and infinite together with
        the score where something happened that had probability zero.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, an option does not exist, or
            ``recalibrated`` gave what happened probability zero (its NLL, the refinement, would be infinite).

    Note:
        A g fitted to these very labels makes calibration too large and refinement too small, by little for a
        temperature (one parameter), by much for flexible ones: fit it on other samples. O(N C) time. Not
        differentiable.

    References:
        Berta, Holzmüller, Jordan and Bach, "Rethinking Early Stopping: Refine, Then Calibrate", 2025.
        Bröcker, "Reliability, sufficiency, and the decomposition of proper scores", Quarterly Journal of the
        Royal Meteorological Society 135, 2009.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.9, 0.9, 0.9, 0.9]), torch.tensor([1, 1, 1, 0])
        >>> parts = refinement_decomposition(probs, torch.full((4,), 0.75), labels, score="brier")
        >>> round(parts.calibration.item(), 4), round(parts.refinement.item(), 4)
        (0.0225, 0.1875)
    """
    checked, after = with_recalibrated(probs, recalibrated, labels, weights, ignore_index)
    check_choice("score", score, tuple(_SCORES))
    before, refinement = _mean_score(checked, score), _mean_score(after, score)
    if bool(refinement.isinf()):
        raise InputError('`recalibrated` must not give what happened probability zero; use score="brier".')
    return RefinementDecomposition(before, before - refinement, refinement)


def with_recalibrated(
    probs: ArrayLike,
    recalibrated: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike | None,
    ignore_index: int | None,
) -> tuple[Checked, Checked]:
    """Probabilities before and after a recalibration, of one shape."""
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    after = check_probs(recalibrated, labels, weights, ignore_index=ignore_index)
    if after.scores.shape != checked.scores.shape:
        shapes = tuple(checked.scores.shape), tuple(after.scores.shape)
        raise InputError("`recalibrated` must have the shape of `probs`, {}; got {}.".format(*shapes))
    return checked, after


def _mean_score(checked: Checked, score: Score) -> Float[Tensor, ""]:
    return weighted_mean(_SCORES[score](checked.scores, checked.target), checked.weights)


def _parts(confidence: Tensor, outcomes: Tensor, weights: Tensor | None, score: Score) -> Float[Tensor, " 3"]:
    """Mean score of an event's probabilities, of the best ones in their order, and of the base rate."""
    probs = confidence.to(torch.float64).clamp(max=1)
    loss = weighted_mean(_SCORES[score](probs, outcomes), weights)
    mass = None if weights is None else vector(weights)
    blocks = _blocks(vector(probs), vector(outcomes), mass)
    shares = blocks.weights / blocks.weights.sum()
    # If a share v of the outcomes is 1, the score of v equals its expectation.
    best = float(shares @ _expected_score(blocks.values, score))
    base = float(_expected_score(np.array([shares @ blocks.values]), score)[0])
    return torch.stack([loss, *torch.tensor([best, base], dtype=torch.float64, device=loss.device)])


def _expected_score(values: Vector, score: Score) -> Vector:
    """Mean score of a calibrated probability."""
    values = np.clip(values, 0.0, 1.0)  # a weighted mean may round to slightly above one
    if score == "brier":
        return values * (1 - values)
    both = torch.from_numpy(np.stack([values, 1 - values]))
    return torch.special.entr(both).sum(dim=0).numpy()


def _blocks(scores: Vector, outcomes: Vector, weights: Vector | None) -> IsotonicBlocks:
    return isotonic_blocks(np.minimum(scores, 1.0), outcomes, weights)


@dataclass(frozen=True)
class TemperatureDecomposition(RefinementDecomposition):
    """A proper score = calibration + refinement, and the temperature that separates them."""

    temperature: float


@suggesting()
def temperature_decomposition(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    score: Score = "nll",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> TemperatureDecomposition:
    r"""Split a proper score into the part that one temperature removes and the rest.

    .. math:: S(p) = \underbrace{S(p) - S(p_T)}_{\text{calibration}} + \underbrace{S(p_T)}_{\text{refinement}}
              , \qquad p_T \propto p^{1/T}

    with the T in ``[1e-4, 1e4]`` of greatest likelihood on these very samples, for both scores. As
    :func:`~calibrant.metrics.refinement_decomposition`, with the recalibration found here; the other
    arguments and errors are as there. For several labels per sample (and an event) :math:`p^{1/T}` is
    weighed against :math:`(1 - p)^{1/T}`, one T for all.

    ``probs`` are probabilities of shape ``(N, C)`` or ``(N,)``; ``labels`` are classes ``(N,)``, or outcomes
    in {0, 1} of the shape of ``probs``; ``weights`` have shape ``(N,)`` and are not negative; labels
    ``ignore_index`` are left out.

    Returns:
        ``score``, ``calibration`` and ``refinement``, float64 scalars, and the temperature. The calibration
        part of the NLL is never negative, that of the Brier score may be, by little.

    Note:
        One number is fitted to the samples judged, which makes calibration too large by about 1 / (2 N) nats.
        Probabilities below 1e-12 are recalibrated as if they were 1e-12 (the score itself takes them as they
        are). Where every true class is the most probable one T ends at 0.01. O(N C) time per step of Newton's
        method. Not differentiable.

    References:
        Berta, Holzmüller, Jordan and Bach, "Rethinking Early Stopping: Refine, Then Calibrate", 2025.

    Example:
        >>> import torch
        >>> parts = temperature_decomposition(torch.tensor([0.9, 0.9, 0.9, 0.9]), torch.tensor([1, 1, 1, 0]))
        >>> round(parts.temperature, 6), round(parts.refinement.item(), 6)  # log 9 / log 3, entropy of 3/4
        (2.0, 0.562335)
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_choice("score", score, ("brier", "nll"))
    temperature = 1 / convex_minimum(lambda beta: _slopes(checked, beta), 1 / HIGHEST, 1 / LOWEST)
    after = torch.empty(checked.scores.shape, dtype=torch.float64, device=checked.scores.device)
    for rows in row_slices(checked.scores):
        scaled = _log_table(checked, rows) / temperature
        table = torch.softmax(scaled, dim=-1)
        after[rows] = table if checked.task == "multiclass" else table[..., 1]
    parts = refinement_decomposition(
        checked.scores, after, checked.target, score=score, weights=checked.weights
    )
    return TemperatureDecomposition(**vars(parts), temperature=temperature)


def _log_table(checked: Checked, rows: slice) -> Tensor:
    """Floored log-probabilities of some rows: of the classes, or of absence and occurrence per event."""
    probs = checked.scores[rows].to(torch.float64)
    if checked.task != "multiclass":
        probs = torch.stack([1 - probs, probs], dim=-1)
    return probs.clamp(min=FLOOR).log()


def _slopes(checked: Checked, beta: float) -> tuple[float, float]:
    """Derivatives of the mean NLL by 1 / T: expectation minus observation, and variance, of log p."""
    first = second = total = 0.0
    for rows in row_slices(checked.scores):
        logs, labels = _log_table(checked, rows), checked.target[rows]
        table = torch.softmax(beta * logs, dim=-1)
        mean = (table * logs).sum(dim=-1)
        variance = (table * (logs - mean[..., None]).square()).sum(dim=-1)
        excess = mean - logs.gather(-1, labels[..., None])[..., 0]
        share = torch.ones(len(logs), dtype=torch.float64, device=logs.device)
        if checked.weights is not None:
            share = checked.weights[rows]
        if excess.ndim == 2:
            share = share[:, None].expand_as(excess)
        first += float((share * excess).sum())
        second += float((share * variance).sum())
        total += float(share.sum())
    return first / total, second / total


@dataclass(frozen=True)
class VariationalError:
    """A lower bound of a calibration error, with the standard error over samples."""

    value: Float[Tensor, ""]
    standard_error: Float[Tensor, ""]


@suggesting()
def variational_calibration_error(
    probs: ArrayLike,
    recalibrated: ArrayLike,
    labels: ArrayLike,
    *,
    p: float = 1.0,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> VariationalError:
    r"""Lower bound of the :math:`L_p` calibration error of whole rows, by a recalibration fitted elsewhere.

    .. math::
        \mathrm E \left\| \mathrm E[e_y \mid p] - p \right\|_p
        \ge \mathrm E \left\langle d, e_y - p \right\rangle , \qquad
        d_k = \operatorname{sign}(\delta_k) \left( |\delta_k| \, / \, \|\delta\|_p \right)^{p - 1} , \quad
        \delta = g(p) - p

    :math:`e_y` is the one-hot vector of a label, and g any recalibration that was fitted on other samples.
    The better g is, the higher is the bound; with the true rates it is the error itself. Binning is not
    possible for many classes, and finds errors where there are none. This bound has no such bias: if the
    probabilities are right, its expectation is 0 for every g.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        recalibrated: Probabilities of the same shape by fits that did not see these samples, such as
            :func:`~calibrant.calibrators.out_of_fold_probs`.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        p: Which norm, from 1 to infinity.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``value``, a scalar float64, for classes in ``[-2, 2]`` with ``p=1``, for events in ``[-1, 1]``; of
        several labels the mean over the labels. Below zero the recalibration did harm. ``standard_error``
        is that of the mean over samples with g as it is, so that a value above 1.645 of them is evidence of
        miscalibration at the level of 5%.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or ``p`` is below 1.

    Note:
        Fitted on the same samples, g makes the value too large. A temperature alone sees errors of
        temperature only; several calibrators may be tried, each with its own bound. O(N C) time. Not
        differentiable.

    References:
        Berta, Braun, Holzmüller, Jordan and Bach, "A Variational Estimator for Lp Calibration Errors", 2026.

    Example:
        >>> import torch
        >>> probs, rates = torch.tensor([[0.9, 0.1]] * 4), torch.tensor([[0.75, 0.25]] * 4)
        >>> found = variational_calibration_error(probs, rates, torch.tensor([0, 0, 0, 1]))
        >>> round(found.value.item(), 6)  # |0.75 - 0.9| + |0.25 - 0.1|
        0.3
    """
    checked, after = with_recalibrated(probs, recalibrated, labels, weights, ignore_index)
    if not p >= 1:
        raise InputError(f"`p` must be at least 1; got {p}.")
    gains = torch.empty(checked.num_samples, dtype=torch.float64, device=checked.scores.device)
    for rows in row_slices(checked.scores):
        stated, better = (each.scores[rows].to(torch.float64) for each in (checked, after))
        if checked.task == "multiclass":
            truth = torch.nn.functional.one_hot(checked.target[rows], checked.num_classes)
        else:
            stated, better, truth = stated[..., None], better[..., None], checked.target[rows][..., None]
        gain = (_steepest(better - stated, p) * (truth - stated)).sum(dim=-1)
        gains[rows] = gain.mean(dim=1) if gain.ndim > 1 else gain
    value = weighted_mean(gains, checked.weights)
    mass = torch.ones_like(gains) if checked.weights is None else checked.weights.to(gains)
    return VariationalError(value, torch.linalg.vector_norm(mass * (gains - value)) / mass.sum())


def _steepest(change: Float[Tensor, "*N C"], p: float) -> Float[Tensor, "*N C"]:
    """Gradient of the norm: the direction of dual norm 1 whose product with the change is its norm."""
    size = change.abs()
    largest = size.amax(dim=-1, keepdim=True)
    if p == math.inf:
        first = torch.zeros_like(size).scatter_(-1, size.argmax(dim=-1, keepdim=True), 1.0)
        return change.sign() * first
    shares = size / largest.where(largest > 0, 1.0)
    norm = torch.linalg.vector_norm(shares, ord=p, dim=-1, keepdim=True)
    return change.sign() * (shares / norm.where(norm > 0, 1.0)) ** (p - 1)
