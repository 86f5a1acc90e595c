"""Metrics that are means over the samples, and the area under the ROC curve."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Unpack

import torch
from torch import Tensor

from calibrant._math.checks import Checked, Task, check_choice, check_share
from calibrant._math.scores import (
    brier_scores,
    entropies,
    hits,
    misses,
    negative_log_likelihoods,
    top_label,
    weighted_sum,
)
from calibrant._math.shapes import Float
from calibrant.metrics.out_of_distribution import areas
from calibrant.metrics.streaming import rows
from calibrant.metrics.streaming.base import StreamingMetric, SyncOptions


class _Sums(StreamingMetric):
    """A few sums for each column."""

    def _summary(self, problems: list[Checked | None]) -> Float[Tensor, "columns sums"]:
        nothing = torch.zeros(self._nothing[-1], dtype=torch.float64, device=self.device)
        return torch.stack(
            [nothing if each is None else torch.stack(self._sums(each)).to(self.device) for each in problems]
        )

    @abstractmethod
    def _sums(self, problem: Checked) -> list[Float[Tensor, ""]]: ...


class _Mean(_Sums):
    _score: ClassVar[Callable[[Any, Any], Any]]

    def _start(self) -> None:
        self._hold(type(self).__name__, (self._num_columns, 2))

    def _sums(self, problem: Checked) -> list[Float[Tensor, ""]]:
        scores = type(self)._score(problem.scores, problem.target)
        return [_weight(problem), weighted_sum(scores, problem.weights)]

    def _values(self) -> Float[Tensor, " columns"]:
        weight, total = self._held.unbind(dim=1)
        return total / weight


class NegativeLogLikelihood(_Mean):
    """Streaming :func:`~calibrant.metrics.negative_log_likelihood`.

    Args:
        task: Kind of predictions: ``"multiclass"``, ``"binary"`` (an event) or ``"multilabel"``.
        num_classes: Number of classes or labels; needed for several labels, else only checked.
        average: ``"macro"`` for the mean over the labels where samples have several, ``"none"`` for one value
            per label.
        ignore_index: Positions with this label are left out.
        from_logits: ``update`` takes logits (log-odds for events) instead of probabilities.
        options: The options of ``torchmetrics.Metric``, such as ``process_group``.

    Example:
        >>> import torch
        >>> metric = NegativeLogLikelihood()
        >>> metric.update(torch.tensor([[0.5, 0.5]]), torch.tensor([0]))
        >>> metric.update(torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
        >>> round(metric.compute().item(), 4)
        0.3466
    """

    higher_is_better = False
    _score = staticmethod(negative_log_likelihoods)


class BrierScore(_Mean):
    """Streaming :func:`~calibrant.metrics.brier_score`; arguments as of :class:`NegativeLogLikelihood`.

    Example:
        >>> import torch
        >>> round(BrierScore(task="binary")(torch.tensor([0.8, 0.3]), torch.tensor([1, 0])).item(), 4)
        0.065
    """

    higher_is_better = False
    _score = staticmethod(brier_scores)


class Accuracy(_Mean):
    """Streaming :func:`~calibrant.metrics.accuracy`; arguments as of :class:`NegativeLogLikelihood`.

    Example:
        >>> import torch
        >>> Accuracy()(torch.tensor([[0.6, 0.4], [0.5, 0.5]]), torch.tensor([0, 1])).item()
        0.5
    """

    higher_is_better = True
    _score = staticmethod(hits)


class ErrorRate(_Mean):
    """Streaming :func:`~calibrant.metrics.error_rate`; arguments as of :class:`NegativeLogLikelihood`.

    Example:
        >>> import torch
        >>> ErrorRate(task="binary")(torch.tensor([0.9, 0.2, 0.7, 0.6]), torch.tensor([1, 0, 1, 0])).item()
        0.25
    """

    higher_is_better = False
    _score = staticmethod(misses)


class PredictiveEntropy(_Sums):
    """Streaming :func:`~calibrant.metrics.predictive_entropy`.

    ``among`` is as there; the other arguments are those of :class:`NegativeLogLikelihood`, without
    ``average``.

    Example:
        >>> import torch
        >>> metric = PredictiveEntropy(among="incorrect")
        >>> round(metric(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([1, 0])).item(), 4)
        0.6931
    """

    def __init__(
        self,
        *,
        among: Literal["all", "correct", "incorrect"] = "all",
        task: Task = "multiclass",
        num_classes: int | None = None,
        ignore_index: int | None = None,
        from_logits: bool = False,
        **options: Unpack[SyncOptions],
    ) -> None:
        super().__init__(
            task=task, num_classes=num_classes, ignore_index=ignore_index, from_logits=from_logits, **options
        )
        check_choice("among", among, ("all", "correct", "incorrect"))
        self.among = among
        self._hold("Entropy", (self._num_columns, 4))

    def _sums(self, problem: Checked) -> list[Float[Tensor, ""]]:
        entropy = entropies(problem.scores, events=problem.task == "binary")
        right = hits(problem.scores, problem.target)
        shares = [right, 1 - right]
        if problem.weights is not None:
            shares = [share * problem.weights for share in shares]
        return [total for share in shares for total in (share.sum(), (share * entropy).sum())]

    def _values(self) -> Float[Tensor, " 1"]:
        by_outcome = self._held.sum(dim=0).reshape(2, 2)  # each decision counts as one event
        weight, total = {"all": by_outcome.sum(dim=0), "correct": by_outcome[0], "incorrect": by_outcome[1]}[
            self.among
        ]
        return (total / weight)[None]


class _HighConfidence(_Sums):
    """Weight of decisions that are confident and right, of confident ones, and of all."""

    higher_is_better = True

    def __init__(
        self,
        *,
        threshold: float = 0.99,
        task: Task = "multiclass",
        num_classes: int | None = None,
        ignore_index: int | None = None,
        from_logits: bool = False,
        **options: Unpack[SyncOptions],
    ) -> None:
        super().__init__(
            task=task, num_classes=num_classes, ignore_index=ignore_index, from_logits=from_logits, **options
        )
        check_share("threshold", threshold)
        self.threshold = threshold
        self._hold("HighConfidence", (self._num_columns, 3), threshold)

    def _sums(self, problem: Checked) -> list[Float[Tensor, ""]]:
        top = top_label(problem.scores, problem.target)
        confident = top.confidence >= self.threshold
        return [
            weighted_sum(confident & top.correct, problem.weights),
            weighted_sum(confident, problem.weights),
            _weight(problem),
        ]


class HighConfidenceShare(_HighConfidence):
    """Streaming share of :func:`~calibrant.metrics.high_confidence`.

    ``threshold`` is as there; the other arguments are those of :class:`NegativeLogLikelihood`, without
    ``average``.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.995, 0.5, 0.001, 0.7]), torch.tensor([1, 0, 1, 1])
        >>> HighConfidenceShare(task="binary")(probs, labels).item()
        0.5
    """

    def _values(self) -> Float[Tensor, " 1"]:
        _, confident, weight = self._held.sum(dim=0)
        return (confident / weight)[None]


class HighConfidenceAccuracy(_HighConfidence):
    """Streaming accuracy of :func:`~calibrant.metrics.high_confidence`.

    Arguments as of :class:`HighConfidenceShare`, with which it shares its state in a ``MetricCollection``.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.995, 0.5, 0.001, 0.7]), torch.tensor([1, 0, 1, 1])
        >>> HighConfidenceAccuracy(task="binary")(probs, labels).item()
        0.5
    """

    def _values(self) -> Float[Tensor, " 1"]:
        right, confident, _ = self._held.sum(dim=0)
        return (right / confident)[None]


def _weight(problem: Checked) -> Float[Tensor, ""]:
    if problem.weights is not None:
        return problem.weights.sum()
    return torch.tensor(float(problem.num_samples), dtype=torch.float64, device=problem.scores.device)


class AUROC(StreamingMetric):
    """Streaming :func:`~calibrant.metrics.auroc`, exact: it keeps every score, 8 bytes each.

    Unlike the function it has no exception for a stream in which no class has both positive and negative
    samples: the value is then NaN, and a warning says so, since a batch may well be like that.
    Arguments as of :class:`NegativeLogLikelihood`; ``num_classes`` is needed unless ``task="binary"``, and
    ``average="none"`` gives one value per class or label.

    Example:
        >>> import torch
        >>> metric = AUROC(task="binary")
        >>> metric.update(torch.tensor([0.1, 0.4]), torch.tensor([0, 0]))
        >>> metric.update(torch.tensor([0.4, 0.8]), torch.tensor([1, 1]))
        >>> metric.compute().item()
        0.875
    """

    higher_is_better = True

    _per_class = True

    def _start(self) -> None:
        width = rows.row_width(self._num_columns, by_class=self._by_class)
        self._hold("Rows", (width,), rows=True)

    def _summary(self, problems: list[Checked | None]) -> Float[Tensor, "n width"]:
        return rows.pack(problems, self._num_columns, by_class=self._by_class)

    def _values(self) -> Float[Tensor, " columns"]:
        events = rows.unpack(self._held, self._num_columns, by_class=self._by_class)
        found = [None if each is None else areas(each)[0] for each in events]
        return torch.tensor(
            [torch.nan if area is None else float(area) for area in found],
            dtype=torch.float64,
            device=self.device,
        )
