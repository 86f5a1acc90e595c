"""Metrics that rank the samples against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor

from calibrant.metrics.roc import areas
from calibrant.metrics.streaming.base import StreamingMetric, SyncOptions
from calibrant.metrics.streaming.rows import (
    EVENT_WIDTH,
    pack_classes,
    pack_events,
    unpack_classes,
    unpack_events,
)

if TYPE_CHECKING:
    from jaxtyping import Float

    from calibrant._math.checks import Checked, Task
    from calibrant.metrics._common import Average


class AUROC(StreamingMetric):
    """Streaming :func:`~calibrant.metrics.auroc`, exact: it keeps every score, 8 bytes each.

    Unlike the function it has no exception for a stream in which no class has both positive and negative
    samples: the value is then NaN, and a warning says so, since a batch may well be like that.

    Args:
        task: What is judged: ``"multiclass"``, ``"binary"`` (an event) or ``"multilabel"``.
        num_classes: Number of classes or labels, to be given unless ``task="binary"``.
        average: ``"macro"`` for the mean over classes or labels, ``"none"`` for one value each.
        ignore_index: Positions with this label are left out.
        from_logits: Whether ``update`` is given logits (log-odds for events) instead of probabilities.
        options: The options of ``torchmetrics.Metric``, such as ``process_group``.

    Example:
        >>> import torch
        >>> metric = AUROC(task="binary")
        >>> metric.update(torch.tensor([0.1, 0.4]), torch.tensor([0, 0]))
        >>> metric.update(torch.tensor([0.4, 0.8]), torch.tensor([1, 1]))
        >>> metric.compute().item()
        0.875
    """

    higher_is_better = True

    def __init__(
        self,
        *,
        task: Task = "multiclass",
        num_classes: int | None = None,
        average: Average = "macro",
        ignore_index: int | None = None,
        from_logits: bool = False,
        **options: Unpack[SyncOptions],
    ) -> None:
        super().__init__(
            task, num_classes, ignore_index, from_logits, options, average=average, per_class=True
        )
        width = EVENT_WIDTH if task != "multiclass" else self._num_columns + 2
        self._hold("Rows", (width,), rows=True)

    def _summary(self, problems: list[Checked | None]) -> Float[Tensor, "n width"]:
        if self.task == "multiclass":
            return pack_classes(problems[0], self._num_columns)
        return pack_events(problems)

    def _values(self) -> Float[Tensor, " columns"]:
        if self.task == "multiclass":
            classes = unpack_classes(self._held)
            found = [None] * self._num_columns if classes is None else areas(classes)
        else:
            events = unpack_events(self._held, self._num_columns)
            found = [None if each is None else areas(each)[0] for each in events]
        return torch.tensor(
            [torch.nan if area is None else float(area) for area in found],
            dtype=torch.float64,
            device=self.device,
        )
