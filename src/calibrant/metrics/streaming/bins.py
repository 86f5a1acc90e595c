"""Calibration errors in bins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar, Unpack

import torch
from torch import Tensor

from calibrant._math.binning import (
    NUM_CELLS,
    BinSums,
    Norm,
    bin_sums,
    binned,
    sketch_bins,
    sketch_error_bound,
    sketch_sums,
    width_bin_index,
    width_column_sums,
    width_edges,
)
from calibrant._math.checks import Checked, Task, check_choice, check_num_bins
from calibrant._math.errors import InputError
from calibrant._math.scores import top_label
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average
from calibrant.metrics.reliability import ReliabilityTable, table_of
from calibrant.metrics.streaming import rows
from calibrant.metrics.streaming.base import StreamingMetric, SyncOptions

T = TypeVar("T")


class _BinnedError(StreamingMetric):
    """Bins of equal width from sums; of equal mass from kept rows or from the sums of a sketch."""

    higher_is_better = False

    def _set_up(
        self, num_bins: int, binning: Literal["width", "mass"], norm: Norm, keep: Literal["all", "sketch"]
    ) -> None:
        check_num_bins(num_bins)
        check_choice("binning", binning, ("width", "mass"))
        check_choice("keep", keep, ("all", "sketch"))
        if keep == "sketch" and binning == "width":
            raise InputError('`keep` must be "all" for binning="width", whose sums are small and exact.')
        if keep == "sketch" and norm != "l1":
            raise InputError('`norm` must be "l1" for keep="sketch": for others its error has no bound.')
        self.num_bins = num_bins
        self.binning = binning
        self.norm: Norm = norm
        self.keep = keep
        if binning == "width":
            self._hold("Bins", (self._num_columns, 3, num_bins))
        elif keep == "sketch":
            self._hold("Cells", (self._num_columns, 3, NUM_CELLS))
        else:
            width = rows.row_width(self._num_columns, by_class=self._by_class)
            name = "Rows" if self._by_class or self.task != "multiclass" else "TopRows"
            self._hold(name, (width,), rows=True)

    def compute_table(self, *, column: int | None = None) -> ReliabilityTable:
        """Table behind the error, over everything seen so far, by all processes.

        Args:
            column: Class or label, if there are several.

        Returns:
            Table of :func:`~calibrant.metrics.reliability_table`; with ``keep="sketch"`` its edges are
            those of cells, and its sums are interpolated.

        Raises:
            InputError: If there are several columns and none is named, or if nothing was seen.
        """
        if column is None and self._num_columns > 1:
            raise InputError(f"`column` must be given: a class or label in 0..{self._num_columns - 1}.")
        chosen = 0 if column is None else column
        if not 0 <= chosen < self._num_columns:
            raise InputError(f"`column` must be in 0..{self._num_columns - 1}; got {column}.")
        bins = self._synced(self._bins)[chosen]
        if bins is None:
            raise InputError(f"{type(self).__name__} has seen no sample to make a table of.")
        return table_of(bins)

    def _summary(self, problems: list[Checked | None]) -> Tensor:
        if self.binning == "mass" and self.keep == "all":
            known = problems if self._by_class else self._events(problems)
            return rows.pack(known, self._num_columns, by_class=self._by_class)
        if self._by_class and self.binning == "width":
            problem = problems[0]
            if problem is None:
                return torch.zeros(self._num_columns, 3, self.num_bins, dtype=torch.float64)
            each = width_column_sums(problem.scores, problem.target, self.num_bins, problem.weights)
            return torch.stack([each.counts, each.confidences, each.outcomes], dim=1)
        return torch.stack([self._event_sums(event) for event in self._events(problems)])

    def _event_sums(self, event: Checked | None) -> Float[Tensor, "3 cells"]:
        cells = NUM_CELLS if self.binning == "mass" else self.num_bins
        if event is None:
            return torch.zeros(3, cells, dtype=torch.float64, device=self.device)
        sample = (event.scores, event.target, event.weights)
        if self.binning == "mass":
            return torch.stack(sketch_sums(*sample)).to(self.device)
        return torch.stack(bin_sums(width_bin_index(event.scores, cells), cells, *sample)).to(self.device)

    def _events(self, problems: list[Checked | None]) -> list[Checked | None]:
        """Events of the confidences: the event, each label, the top label or each class."""
        problem = problems[0]
        if self.task != "multiclass":
            return problems
        if self._by_class or problem is None:
            return rows.split_classes(problem, self._num_columns)
        top = top_label(problem.scores, problem.target)
        return [rows.as_event(top.confidence, top.correct, problem.weights)]

    def _bins(self) -> list[BinSums | None]:
        held = self._held
        if self.binning == "mass" and self.keep == "all":
            events = rows.unpack(held, self._num_columns, by_class=self._by_class)
            return [None if each is None else self._mass_bins(each) for each in events]
        if self.binning == "mass":
            return [sketch_bins(*sums, num_bins=self.num_bins) if bool(sums.any()) else None for sums in held]
        edges = width_edges(self.num_bins, device=held.device)
        return [
            BinSums(edges, *sums, total=float(sums[0].sum())) if bool(sums.any()) else None for sums in held
        ]

    def _mass_bins(self, event: Checked) -> BinSums:
        return binned(
            event.scores, event.target, num_bins=self.num_bins, binning="mass", weights=event.weights
        )

    def _values(self) -> Float[Tensor, " columns"]:
        undefined = torch.full((), torch.nan, dtype=torch.float64, device=self._held.device)
        return torch.stack(
            [undefined if bins is None else bins.calibration_error(self.norm) for bins in self._bins()]
        )

    def _bounds(self) -> Float[Tensor, " columns"]:
        """Bound on the difference of each column from the exact value."""
        held = self._held
        if self.keep == "all":
            return torch.zeros(self._num_columns, dtype=torch.float64, device=held.device)
        return torch.stack([sketch_error_bound(*sums, num_bins=self.num_bins) for sums in held])

    def _synced(self, ask: Callable[[], T]) -> T:
        """Result of ``ask`` over all processes; states that are together already stay so."""
        alone = not self._is_synced
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn, should_sync=alone and self.sync_on_compute, should_unsync=alone
        ):
            return ask()


class CalibrationError(_BinnedError):
    """Streaming :func:`~calibrant.metrics.expected_calibration_error`; "mass" is the adaptive error.

    Bins of equal width need sums only. Bins of equal mass depend on all confidences: ``keep="all"`` keeps
    them, 32 bytes each, and is exact. ``keep="sketch"`` holds sums of fixed size (400 kB for each column),
    and :meth:`error_bound` bounds its error: less than 0.01 with thousands of samples, and usually far
    smaller.

    Args:
        num_bins: Number of bins.
        binning: ``"width"`` or ``"mass"``.
        norm: ``"l1"`` for the weighted mean of the gaps, ``"l2"`` for their weighted root mean square.
        keep: Source of bins of equal mass: ``"all"`` or ``"sketch"``.
        task: ``"multiclass"`` (the top label), ``"binary"`` (an event) or ``"multilabel"``.
        num_classes: Number of classes or labels; needed for several labels, else only checked.
        average: ``"macro"`` for the mean over the labels where samples have several, ``"none"`` for one value
            per label.
        ignore_index: Positions with this label are left out.
        from_logits: ``update`` takes logits (log-odds for events) instead of probabilities.
        options: The options of ``torchmetrics.Metric``, such as ``process_group``.

    Example:
        >>> import torch
        >>> metric = CalibrationError()
        >>> metric.update(torch.tensor([[0.05, 0.95]]), torch.tensor([1]))
        >>> metric.update(torch.tensor([[0.0, 1.0]]), torch.tensor([0]))
        >>> round(metric.compute().item(), 3)
        0.475
        >>> metric.compute_table().counts[-1]
        2.0
    """

    def __init__(
        self,
        *,
        num_bins: int = 15,
        binning: Literal["width", "mass"] = "width",
        norm: Literal["l1", "l2"] = "l1",
        keep: Literal["all", "sketch"] = "all",
        task: Task = "multiclass",
        num_classes: int | None = None,
        average: Average = "macro",
        ignore_index: int | None = None,
        from_logits: bool = False,
        **options: Unpack[SyncOptions],
    ) -> None:
        check_choice("norm", norm, ("l1", "l2"))
        super().__init__(
            task=task,
            num_classes=num_classes,
            average=average,
            ignore_index=ignore_index,
            from_logits=from_logits,
            **options,
        )
        self._set_up(num_bins, binning, norm, keep)

    def error_bound(self) -> Float[Tensor, ""] | Float[Tensor, " C"]:
        """Bound on the difference of ``compute()`` from the exact value: 0 unless ``keep="sketch"``.

        Returns:
            Scalar float64, or one per column for ``average="none"``; NaN before anything was seen.
        """
        bounds = self._synced(self._bounds)
        return bounds if self.average == "none" else bounds.nanmean()


class ClasswiseCalibrationError(CalibrationError):
    """Streaming :func:`~calibrant.metrics.classwise_calibration_error`.

    Arguments as of :class:`CalibrationError`; ``num_classes`` is needed unless ``task="binary"``, and
    ``average="none"`` gives one value per class. The state has ``num_classes`` times the size, and with
    ``binning="mass", keep="all"`` all probabilities are kept, 8 bytes each.

    Example:
        >>> import torch
        >>> metric = ClasswiseCalibrationError(num_classes=3, average="none")
        >>> metric.update(torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([0]))
        >>> metric.update(torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([1]))
        >>> [round(value, 3) for value in metric.compute().tolist()]
        [0.2, 0.3, 0.1]
    """

    _per_class = True


class MaximumCalibrationError(_BinnedError):
    """Streaming :func:`~calibrant.metrics.maximum_calibration_error`.

    Arguments as of :class:`CalibrationError`, without ``norm`` and ``keep``: bins of equal mass are exact.

    Example:
        >>> import torch
        >>> metric = MaximumCalibrationError(num_bins=2, task="binary")
        >>> metric.update(torch.tensor([0.2, 0.9, 0.8]), torch.tensor([0, 1, 0]))
        >>> round(metric.compute().item(), 4)
        0.35
    """

    def __init__(
        self,
        *,
        num_bins: int = 15,
        binning: Literal["width", "mass"] = "width",
        task: Task = "multiclass",
        num_classes: int | None = None,
        average: Average = "macro",
        ignore_index: int | None = None,
        from_logits: bool = False,
        **options: Unpack[SyncOptions],
    ) -> None:
        super().__init__(
            task=task,
            num_classes=num_classes,
            average=average,
            ignore_index=ignore_index,
            from_logits=from_logits,
            **options,
        )
        self._set_up(num_bins, binning, "max", "all")
