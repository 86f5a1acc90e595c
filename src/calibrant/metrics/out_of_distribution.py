"""Ranking: area under the ROC curve, and detection of out-of-distribution samples."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor, row_slices
from calibrant._math.binning import REACHED
from calibrant._math.checks import Checked, Task, check_choice, check_logits, check_probs, check_weights
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.scores import entropies
from calibrant._math.shapes import Bool, Float
from calibrant._math.sorting import ascending_order
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import Vector, check_average, columns, numbers

__all__ = [
    "OutOfDistributionDetection",
    "RocCurve",
    "auroc",
    "out_of_distribution_detection",
    "out_of_distribution_scores",
    "roc_curve",
]

OutOfDistributionScore: TypeAlias = Literal["entropy", "max_probability", "max_logit", "energy"]
OUT_OF_DISTRIBUTION_SCORES: tuple[OutOfDistributionScore, ...] = get_args(OutOfDistributionScore)


@suggesting()
def out_of_distribution_scores(
    *,
    logits: ArrayLike | None = None,
    probs: ArrayLike | None = None,
    score: OutOfDistributionScore = "entropy",
    multilabel: bool = False,
) -> Float[Tensor, " N"]:
    r"""Score each sample's unfamiliarity; higher means more likely out of distribution.

    - ``"entropy"``: :math:`-\sum_k p_k \log p_k`;
    - ``"max_probability"``: :math:`1 - \max_k p_k`;
    - ``"max_logit"``: :math:`-\max_k z_k`;
    - ``"energy"``: :math:`-\log \sum_k e^{z_k}`.

    An event ``(N,)`` has the entropy of ``(1 - p, p)`` and the top probability max(p, 1 − p); the last two
    need a logit per class and are refused. With several labels per sample: the mean entropy of the labels,
    the most probable label, the highest logit, and the sum of the labels' energies
    :math:`-\sum_k \log(1 + e^{z_k})`.

    Args:
        logits: Logits ``(N, C)``, or log-odds of an event ``(N,)``.
        probs: Probabilities instead, of the same shapes; they have no ``"max_logit"`` and no ``"energy"``.
        score: Proper score.
        multilabel: The columns are labels, of which several can apply.

    Returns:
        Shape ``(N,)``, float64, on the device of the input.

    Raises:
        InputError: If not exactly one of ``logits`` and ``probs`` is given, a value is not finite or out of
            range, or the score needs what is not there.

    Note:
        From logits :math:`1 - \max p` is the sum of the other probabilities, so samples that are all but
        certain keep their order, which ``1 - p`` in floating point would lose. O(N C).

    References:
        Hendrycks and Gimpel, "A Baseline for Detecting Misclassified and Out-of-Distribution Examples in
        Neural Networks", ICLR 2017. Hendrycks et al., "Scaling Out-of-Distribution Detection for Real-World
        Settings", ICML 2022 (maximum logit). Liu et al., "Energy-based Out-of-distribution Detection",
        NeurIPS 2020. Wang et al., "Can multi-label classification networks know what they don't know?",
        NeurIPS 2021 (energy of labels). Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss",
        NeurIPS 2020 (entropy).

    Example:
        >>> scores = out_of_distribution_scores(probs=[[1.0, 0.0], [0.5, 0.5]])
        >>> [round(score, 4) for score in scores.tolist()]
        [0.0, 0.6931]
        >>> out_of_distribution_scores(logits=[[3.0, 0.0], [0.5, 0.5]], score="max_logit").tolist()
        [-3.0, -0.5]
    """
    check_choice("score", score, OUT_OF_DISTRIBUTION_SCORES)
    task: Task | None = "multilabel" if multilabel else None
    if logits is not None and probs is not None:
        raise InputError("give one of `logits` and `probs`; got both.")
    if probs is not None:
        if score in {"max_logit", "energy"}:
            raise InputError(f'`score` must be "entropy" or "max_probability" for `probs`; got "{score}".')
        checked = check_probs(probs, task=task)
        return _of_probs(checked.scores, score, events=checked.task != "multiclass")
    if logits is None:
        raise InputError("give one of `logits` and `probs`; got neither.")
    checked = check_logits(logits, task=task)
    if checked.task == "binary" and score in {"max_logit", "energy"}:
        raise InputError(
            f'`score` must be "entropy" or "max_probability" for an event (N,); got "{score}", which needs '
            "a logit of each class."
        )
    table = checked.scores
    found = torch.empty(len(table), dtype=torch.float64, device=table.device)
    for rows in row_slices(table):
        found[rows] = _of_logits(table[rows].to(torch.float64), score, checked.task)
    return found


def _of_probs(probs: Tensor, score: OutOfDistributionScore, *, events: bool) -> Float[Tensor, " N"]:
    if score == "entropy":
        return entropies(probs, events=events)
    if probs.ndim == 1:
        probs = torch.stack([1 - probs.to(torch.float64), probs.to(torch.float64)], dim=1)
    return 1 - probs.amax(dim=1).to(torch.float64)


def _of_logits(logits: Tensor, score: OutOfDistributionScore, task: Task) -> Float[Tensor, " n"]:
    if score == "max_logit":
        return -logits.amax(dim=1)
    if score == "energy":
        if task == "multilabel":
            return -torch.nn.functional.softplus(logits).sum(dim=1)
        return -logits.logsumexp(dim=1)
    if task == "multilabel" and score == "max_probability":
        return torch.sigmoid(-logits.amax(dim=1))
    if task == "multilabel":
        return _event_entropy(logits).mean(dim=1)
    if task == "binary":
        return _event_entropy(logits) if score == "entropy" else torch.sigmoid(-logits.abs())
    log_probs = logits.log_softmax(dim=1)
    if score == "entropy":
        return -(log_probs.exp() * log_probs).sum(dim=1)
    top = log_probs.argmax(dim=1, keepdim=True)
    return log_probs.exp().scatter(1, top, 0.0).sum(dim=1)


def _event_entropy(log_odds: Tensor) -> Tensor:
    """Entropy of (1 − p, p): softplus(s) − s σ(s), at −|s|, where neither cancels."""
    low = -log_odds.abs()
    return torch.nn.functional.softplus(low) - low * torch.sigmoid(low)


@dataclass(frozen=True, kw_only=True)
class RocCurve:
    """The two rates at every threshold, from the highest score down, starting with nothing flagged."""

    thresholds: tuple[float | None, ...]
    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class OutOfDistributionDetection:
    """Separation of two kinds of samples by one score, by default with unfamiliar ones as positives."""

    auroc: float
    aupr: float
    """Average precision, out-of-distribution samples positive."""
    aupr_in: float
    """Average precision with the familiar samples as positives and the score reversed."""
    fpr_at_tpr: float
    """Share of in-distribution samples flagged if at least ``true_positive_rate`` of the others are."""
    fpr_at_tpr_in: float
    """Share of out-of-distribution samples let through if at least ``true_positive_rate`` of the others
    are."""


@suggesting()
def out_of_distribution_detection(
    in_scores: ArrayLike,
    out_scores: ArrayLike,
    *,
    true_positive_rate: float = 0.95,
    in_weights: ArrayLike | None = None,
    out_weights: ArrayLike | None = None,
) -> OutOfDistributionDetection:
    r"""AUROC, AUPR and FPR at 95% TPR of a score that should be higher out of distribution.

    .. math::
        \mathrm{AUROC} = P(s^+ > s^-) + \tfrac12 P(s^+ = s^-), \qquad
        \mathrm{AUPR} = \sum_t \left( R(t) - R(t^+) \right) P(t), \qquad
        \mathrm{FPR}_\tau = \min \{ \mathrm{fpr}(t) : \mathrm{tpr}(t) \ge \tau \}

    over the thresholds t, the distinct scores; R is recall and P precision among the samples with a score of
    at least t. Ties are never parted, nothing is interpolated.

    Papers differ in which kind is the positive one. The AUROC is the same either way; of AUPR and FPR both
    are returned, under names that say which.

    Args:
        in_scores: Scores of in-distribution samples, shape ``(N,)``, from
            :func:`out_of_distribution_scores` or any other source.
        out_scores: Scores of out-of-distribution samples, shape ``(M,)``.
        true_positive_rate: At which the false positives are counted, in ``(0, 1]``.
        in_weights: Weights of the in-distribution samples, shape ``(N,)``, not negative.
        out_weights: Weights of the out-of-distribution samples, shape ``(M,)``.

    Returns:
        Five numbers in ``[0, 1]``.

    Raises:
        InputError: If a shape is wrong, or a value is NaN or out of range.

    Note:
        AUROC and FPR do not depend on how many samples there are of each kind, AUPR does: its value for a
        useless score is the share of its positives. Scores may be infinite. O((N + M) log(N + M)).

    References:
        Hendrycks and Gimpel, "A Baseline for Detecting Misclassified and Out-of-Distribution Examples in
        Neural Networks", ICLR 2017. Liang, Li and Srikant, "Enhancing the Reliability of Out-of-distribution
        Image Detection in Neural Networks", ICLR 2018 (FPR at 95% TPR, in-distribution samples positive).

    Example:
        >>> found = out_of_distribution_detection([0.1, 0.2, 0.4], [0.4, 0.9])
        >>> round(found.auroc, 4), round(found.aupr, 4), round(found.fpr_at_tpr, 4), found.fpr_at_tpr_in
        (0.9167, 0.8333, 0.3333, 0.5)
    """
    if not 0 < true_positive_rate <= 1:
        raise InputError(f"`true_positive_rate` must be in (0, 1]; got {true_positive_rate}.")
    inside, in_mass = _side(in_scores, in_weights, "in")
    outside, out_mass = _side(out_scores, out_weights, "out")
    scores = np.concatenate([inside, outside])
    in_mass = np.concatenate([in_mass, np.zeros(len(outside))])
    out_mass = np.concatenate([np.zeros(len(inside)), out_mass])
    foreign = Ranking.of(scores).detection(in_mass, out_mass)
    familiar = Ranking.of(-scores).detection(out_mass, in_mass)
    return OutOfDistributionDetection(
        auroc=foreign.area(),
        aupr=foreign.average_precision(),
        aupr_in=familiar.average_precision(),
        fpr_at_tpr=foreign.false_positive_rate(true_positive_rate),
        fpr_at_tpr_in=familiar.false_positive_rate(true_positive_rate),
    )


@suggesting()
def roc_curve(scores: ArrayLike, outcomes: ArrayLike, *, weights: ArrayLike | None = None) -> RocCurve:
    """False and true positive rates at every threshold of a score.

    Args:
        scores: Any numbers that should be higher for positives, shape ``(N,)``.
        outcomes: 1 for positives, 0 for negatives, shape ``(N,)``.
        weights: Weights of the samples, shape ``(N,)``, not negative.

    Returns:
        ``thresholds`` (``None``, where nothing is flagged, then the distinct scores, descending), and the
        shares of negatives and of positives with a score of at least that.

    Raises:
        InputError: If shapes disagree, a value is NaN, or one of the two kinds has no weight.

    Note:
        The area under the straight lines between the points is the AUROC, ties counting one half. Straight
        stretches are kept: there is one point per distinct score. O(N log N).

    References:
        Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27, 2006.

    Example:
        >>> curve = roc_curve([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1])
        >>> curve.false_positive_rate, curve.true_positive_rate
        ((0.0, 0.0, 0.5, 1.0), (0.0, 0.5, 1.0, 1.0))
    """
    values = numbers(scores, "scores", infinite=True)
    labels = as_float_tensor(outcomes, name="outcomes").cpu().numpy()
    if labels.shape != values.shape or not np.isin(labels, (0, 1)).all():
        raise InputError(f"`outcomes` must be 0 or 1 and have the shape of `scores`, {values.shape}.")
    mass = np.ones(len(values)) if weights is None else check_weights(weights, len(values)).cpu().numpy()
    positive = labels == 1
    for kind, chosen in (("positives", positive), ("negatives", ~positive)):
        if not mass[chosen].sum() > 0:
            raise InputError(f"`outcomes` must hold {kind} of positive weight; there are none.")
    return Ranking.of(values).detection(mass * ~positive, mass * positive).curve()


@dataclass(frozen=True)
class Ranking:
    """Samples in descending order of their scores, with the ends of ties; the weights may change."""

    order: NDArray[np.int64]
    ends: NDArray[np.int64]
    thresholds: Vector

    @classmethod
    def of(cls, scores: Vector) -> Ranking:
        """Sort the scores once."""
        order = ascending_order(-scores)
        ranked = scores[order]
        ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
        return cls(order, ends, ranked[ends])

    def detection(self, negative: Vector, positive: Vector) -> Detection:
        """Detection with each sample's weight as a negative and as a positive; one of them is zero."""
        false, true = (np.cumsum(mass[self.order])[self.ends] for mass in (negative, positive))
        return Detection(self.thresholds, false, true)


@dataclass(frozen=True)
class Detection:
    """Weight of the negatives and of the positives with a score of at least each threshold, descending."""

    thresholds: Vector
    false: Vector
    true: Vector

    def curve(self, places: NDArray[np.int64] | slice = slice(None)) -> RocCurve:
        """Rates at all thresholds, or at some indices."""
        false, true = self.false / self.false[-1], self.true / self.true[-1]
        return RocCurve(
            thresholds=(None, *self.thresholds[places].tolist()),
            false_positive_rate=(0.0, *false[places].tolist()),
            true_positive_rate=(0.0, *true[places].tolist()),
        )

    def area(self) -> float:
        """Area under the ROC curve, by trapezoids, which count ties one half."""
        false, true = np.append(0.0, self.false), np.append(0.0, self.true)
        return float(np.diff(false) @ (true[1:] + true[:-1]) / (2 * false[-1] * true[-1]))

    def average_precision(self) -> float:
        """Precision at each threshold, weighted by the recall it adds."""
        flagged = self.false + self.true
        precision = np.divide(self.true, flagged, out=np.zeros_like(flagged), where=flagged > 0)
        return float(np.diff(self.true, prepend=0.0) @ precision / self.true[-1])

    def false_positive_rate(self, true_positive_rate: float) -> float:
        """False positive rate at the highest threshold that reaches the true positive rate."""
        reached = self.true >= true_positive_rate * self.true[-1] * REACHED
        return float(self.false[int(np.argmax(reached))] / self.false[-1])


def _side(scores: ArrayLike, weights: ArrayLike | None, side: str) -> tuple[Vector, Vector]:
    values = numbers(scores, f"{side}_scores", infinite=True)
    if weights is None:
        return values, np.ones(len(values))
    return values, check_weights(weights, len(values)).cpu().numpy()


@overload
def auroc(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Literal["macro"] = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""]: ...
@overload
def auroc(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Literal["none"],
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> tuple[Float[Tensor, ""] | None, ...]: ...
@suggesting()
def auroc(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Literal["macro", "none"] = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | tuple[Float[Tensor, ""] | None, ...]:
    r"""Area under the ROC curve: of an event, of each label, or of each class against all others.

    .. math:: \mathrm{AUROC} = P(p^+ > p^-) + \tfrac12 P(p^+ = p^-)

    for a random positive and a random negative sample: ties count one half.

    It is undefined for a class that no sample, or every sample, belongs to. Such a class is left out of the
    mean, and a :class:`~calibrant.CalibrantWarning` says so; with ``average="none"`` its place is ``None``.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        average: ``"macro"`` for the unweighted mean over classes or labels, ``"none"`` for one value each.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``; for ``average="none"`` a tuple of ``C``, each such a scalar or ``None``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or no class has both positive
            and negative samples.

    Note:
        Measures only the ranking, not calibration. O(C N log N).

    References:
        Hanley and McNeil, "The Meaning and Use of the Area under a Receiver Operating Characteristic (ROC)
        Curve", Radiology 143, 1982.

    Example:
        >>> import torch
        >>> auroc(torch.tensor([0.1, 0.4, 0.4, 0.8]), torch.tensor([0, 0, 1, 1])).item()
        0.875
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_average(average, checked, per_class=True)
    each = areas(checked)
    if average == "none":
        return tuple(each)
    defined = [value for value in each if value is not None]
    if not defined:
        raise InputError(
            "`labels` must hold a positive and a negative sample of some class; else AUROC is undefined."
        )
    if len(defined) < len(each):
        missing = [str(k) for k, value in enumerate(each) if value is None]
        listed = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        warnings.warn(
            f"AUROC omits {len(missing)} of {len(each)} classes that never or always occur ({listed}).",
            CalibrantWarning,
            stacklevel=2,
        )
    return torch.stack(defined).mean()


def areas(checked: Checked) -> list[Float[Tensor, ""] | None]:
    """Area of the single event, or of every column; ``None`` if undefined."""
    return [_area(p, y, checked.weights) for p, y in columns(checked)]


def _area(
    scores: Float[Tensor, " N"], positive: Bool[Tensor, " N"], weights: Float[Tensor, " N"] | None
) -> Float[Tensor, ""] | None:
    if 2 * int(positive.sum()) > len(positive):  # look up the smaller group, which also loses fewer digits
        mirrored = _area(scores, ~positive, weights)
        return None if mirrored is None else 1 - mirrored
    chosen = positive.nonzero()[:, 0]
    own = torch.ones(len(chosen), dtype=torch.float64, device=scores.device)
    ranked, below = _ranked(scores, weights)
    if weights is not None:
        own = weights[chosen]
    pairs = own.sum() * (below[-1] - own.sum())
    if not bool(pairs > 0):
        return None
    values = scores[chosen].to(ranked.dtype)
    worse = below[torch.searchsorted(ranked, values)] + below[torch.searchsorted(ranked, values, right=True)]
    # Pairs of two positives add own.sum() ** 2 to the doubled count, in any order.
    return ((own * worse).sum() - own.sum().square()) / (2 * pairs)


def _ranked(scores: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores in ascending order, and the weight below each place among them."""
    if weights is not None:
        ranked, order = scores.to(torch.float64).sort()
        return ranked, torch.cat([weights.new_zeros(1), weights[order].cumsum(dim=0)])
    if scores.dtype not in {torch.float32, torch.float64}:
        scores = scores.to(torch.float32)
    if scores.device.type == "cpu":  # numpy sorts plain values several times faster than torch
        ranked = torch.from_numpy(np.sort(scores.numpy()))
    else:
        ranked = scores.sort().values
    return ranked, torch.arange(len(ranked) + 1, dtype=torch.float64, device=ranked.device)
