"""Metrics that rank the samples against each other."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._math.checks import Checked
from calibrant._math.shapes import Float
from calibrant.metrics.roc import areas
from calibrant.metrics.streaming import rows
from calibrant.metrics.streaming.base import StreamingMetric


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
        width = rows.EVENT_WIDTH if self.task != "multiclass" else self._num_columns + 2
        self._hold("Rows", (width,), rows=True)

    def _summary(self, problems: list[Checked | None]) -> Float[Tensor, "n width"]:
        if self.task == "multiclass":
            return rows.pack_classes(problems[0], self._num_columns)
        return rows.pack_events(problems)

    def _values(self) -> Float[Tensor, " columns"]:
        if self.task == "multiclass":
            classes = rows.unpack_classes(self._held)
            found = [None] * self._num_columns if classes is None else areas(classes)
        else:
            events = rows.unpack_events(self._held, self._num_columns)
            found = [None if each is None else areas(each)[0] for each in events]
        return torch.tensor(
            [torch.nan if area is None else float(area) for area in found],
            dtype=torch.float64,
            device=self.device,
        )
