"""Null distribution of any metric, and a paired test of two models."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Task, check_at_least, check_level, check_probs
from calibrant._math.errors import InputError
from calibrant.evaluation.resampling.events import Vector
from calibrant.evaluation.resampling.intervals import centred_interval
from calibrant.evaluation.resampling.null import ROUNDING
from calibrant.evaluation.resampling.resamples import Resamples, Stream, generator, stream_seed

Metric: TypeAlias = Callable[..., Any]  # of probs and labels, and `weights` if there are any


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """Values of a metric when outcomes are drawn from the stated probabilities."""

    values: Vector  # (num_draws,)

    @property
    def mean(self) -> float:
        """Mean of the draws."""
        return float(self.values.mean())

    def quantile(self, level: float) -> float:
        """Quantile of the draws."""
        return float(np.quantile(self.values, level))

    def p_value(self, observed: float) -> float:
        """``(1 + k) / (1 + draws)``, k of which are at least as large as the value observed."""
        at_least = int((self.values >= float(observed) - ROUNDING).sum())
        return (1 + at_least) / (1 + len(self.values))


def null_distribution(
    metric: Metric,
    probs: ArrayLike,
    *,
    multilabel: bool = False,
    weights: ArrayLike | None = None,
    num_draws: int = 1000,
    seed: int = 0,
) -> NullDistribution:
    """Null distribution of any metric, by drawing labels from the model's probabilities.

    A calibration error of a finite sample is never zero. Compare it with the values under true probabilities.
    For its own metrics, :func:`~calibrant.evaluate` does so, faster.

    Args:
        metric: Called as ``metric(probs, labels)``, or with ``weights=`` if there are any; returns a
            number. The functions of :mod:`calibrant.metrics` do, others may.
        probs: Probabilities of classes ``(N, C)`` or of an event ``(N,)``.
        multilabel: True if the columns are labels of their own, drawn independently.
        weights: Weights of the samples, shape ``(N,)``, handed on to the metric.
        num_draws: Number of draws.
        seed: Seed of the draws.

    Returns:
        The values with ``mean``, ``quantile(level)`` and ``p_value(observed)`` (for metrics that grow with
        the error).

    Raises:
        InputError: If the probabilities are none, or the metric gives anything but a number.

    Note:
        ``num_draws`` calls of the metric. Rows that miss one are drawn from as if they were rescaled.

    References:
        Vaicenavicius et al., "Evaluating model calibration in classification", AISTATS 2019; Widmann,
        Lindsten and Zachariah, "Calibration tests in multi-class classification", NeurIPS 2019.

    Example:
        >>> import numpy as np
        >>> from calibrant import metrics
        >>> rng = np.random.default_rng(0)
        >>> probs = rng.dirichlet([1, 1, 1], size=500)
        >>> null = null_distribution(metrics.smooth_calibration_error, probs, num_draws=99)
        >>> 0 < null.mean < 0.03
        True
        >>> null.p_value(0.2)
        0.01
    """
    check_at_least("num_draws", num_draws, 1)
    checked = check_probs(probs, None, weights, task="multilabel" if multilabel else None)
    rng = generator(seed, Stream.NULL)
    more = {} if checked.weights is None else {"weights": checked.weights}
    draw = _drawing(checked.scores, checked.task)
    return NullDistribution(
        np.array([_value(metric(checked.scores, draw(rng), **more)) for _ in range(num_draws)])
    )


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """Two models on the same samples; ``difference`` is the first minus the second."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float


def paired_test(
    metric: Metric,
    first: ArrayLike,
    second: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    num_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> PairedTest:
    """Paired test of a metric of two models on the same samples.

    The **interval** is that of the difference over bootstrap resamples of the samples, the same for both
    models, moved to centre on the observed difference. The **p-value** comes from swapping the two models'
    probabilities on random halves of the samples: if the models are exchangeable, a swap changes the result
        only by noise. It is exact for any metric and any size, and two-sided.

    Args:
        metric: Called as ``metric(probs, labels)``, or with ``weights=`` if there are any; returns a
            number.
        first: Probabilities of one model, shape ``(N, C)`` or ``(N,)``.
        second: Those of the other on the same samples, of the same shape.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of the probabilities.
        weights: Weights of the samples, shape ``(N,)``, handed on to the metric.
        num_resamples: Resamples, and the number of swaps.
        level: Level of the interval.
        seed: Seed of both.

    Returns:
        Both values, the difference, its interval, and the share :math:`(1 + k)/(1 + R)` of :math:`R` swaps, k
        of which give a difference at least as large in size.

    Raises:
        InputError: If shapes disagree, a value is out of range, or the metric gives anything but a number.

    Note: Four calls of the metric per resample. The p-value tests whether the models are equal altogether,
        the interval only whether the metric is. For accuracy and scores, means over the samples, they hardly
        differ. Two models of equal calibration error but different accuracy might get a p-value that is
        slightly off; the interval counts.

    References:
        Good, "Permutation, Parametric and Bootstrap Tests of Hypotheses", 2005.

    Example:
        >>> import numpy as np
        >>> from calibrant import metrics
        >>> rng = np.random.default_rng(0)
        >>> log_odds = rng.normal(size=600)
        >>> labels = (rng.random(600) < 1 / (1 + np.exp(-log_odds))).astype(int)
        >>> sharp, honest = (1 / (1 + np.exp(-scale * log_odds)) for scale in (3, 1))
        >>> found = paired_test(metrics.brier_score, sharp, honest, labels, num_resamples=199)
        >>> found.low > 0, found.p_value
        (True, 0.005)
    """
    check_at_least("num_resamples", num_resamples, 2)
    check_level(level)
    one, other = check_probs(first, labels, weights), check_probs(second, labels, weights)
    if one.scores.shape != other.scores.shape:
        shapes = tuple(one.scores.shape), tuple(other.scores.shape)
        raise InputError("`second` must have the shape of `first`, {}; got {}.".format(*shapes))
    a, b = one.scores, other.scores.to(one.scores.dtype)
    target, mass = one.target, one.weights

    def values(a: Tensor, b: Tensor, rows: Tensor | None = None) -> tuple[float, float]:
        chosen = slice(None) if rows is None else rows
        more = {} if mass is None else {"weights": mass[chosen]}
        found = (_value(metric(probs[chosen], target[chosen], **more)) for probs in (a, b))
        return next(found), next(found)

    def differences() -> Iterator[float]:
        draws = Resamples(len(a), num_resamples, stream_seed(seed, Stream.BOOTSTRAP))
        for counts in itertools.chain.from_iterable(draws.blocks()):
            index = torch.from_numpy(np.repeat(np.arange(len(a)), draws.by_row(counts))).to(a.device)
            if mass is not None and not bool(mass[index].any()):
                continue
            mine, theirs = values(a, b, index)
            yield mine - theirs

    def swapped() -> Iterator[float]:
        rng = generator(seed, Stream.SWAPS)
        for _ in range(num_resamples):
            swap = torch.from_numpy(rng.random(len(a)) < 0.5).to(a.device)
            if a.ndim == 2:
                swap = swap[:, None]
            mine, theirs = values(torch.where(swap, b, a), torch.where(swap, a, b))
            yield mine - theirs

    mine, theirs = values(a, b)
    difference = mine - theirs
    interval = centred_interval(difference, np.array(list(differences())), level, (-np.inf, np.inf))
    low, high = (difference, difference) if interval is None else interval
    at_least = sum(abs(each) >= abs(difference) - ROUNDING for each in swapped())
    return PairedTest(
        first=mine,
        second=theirs,
        difference=difference,
        low=low,
        high=high,
        p_value=(1 + at_least) / (1 + num_resamples),
    )


def _drawing(probs: Tensor, task: Task) -> Callable[[np.random.Generator], Tensor]:
    """Return a function that draws classes ``(N,)``, or outcomes of the probabilities' shape."""
    stated = probs.to("cpu", torch.float64).numpy()
    ends = np.cumsum(stated, axis=1) if task == "multiclass" else None
    if ends is not None:
        ends /= ends[:, -1:]

    def draw(rng: np.random.Generator) -> Tensor:
        if ends is None:
            drawn = rng.random(stated.shape) < stated
        else:
            drawn = (ends <= rng.random((len(ends), 1))).sum(axis=1)
        return torch.from_numpy(drawn.astype(np.int64)).to(probs.device)

    return draw


def _value(found: Any) -> float:
    try:
        value = float(found)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"`metric` must return a number; got {type(found).__name__}.") from None
    if np.isnan(value):
        raise InputError("`metric` must return a number; got NaN.")
    return value
