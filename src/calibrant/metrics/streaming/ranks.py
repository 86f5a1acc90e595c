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
