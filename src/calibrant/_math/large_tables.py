"""One pass over tables of probabilities: compiled loops over large ones in slices of fixed size.

To load compiled code takes half a second once, a table of a million rows a twentieth: below, torch it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import MAY_BE_SHARED
from calibrant._math.machine import in_threads
from calibrant._math.shapes import Bool, Float, Int

LARGE = 1 << 22  # entries of a table for which compiled loops pay, and
LARGE_COLUMN = 1 << 19  # of a single column
NARROW = 64  # columns; wider rows are read several entries at once, without a transposed copy
_SLICE = 1 << 20  # entries


class TableFacts(NamedTuple):
    """Smallest and largest value of a table, and largest deviation of a row sum from one (NaN if any is)."""

    low: float
    high: float
    furthest: float
    highest: Float[Tensor, " N"]  # per row, float64; empty without labels, as is the next one
    correct: Bool[Tensor, " N"]  # whether the first of the most probable classes is the true one


class RowFacts(NamedTuple):
    """Smallest value of some rows; per row its largest value, its sum, and its correctness."""

    low: Float[Tensor, ""]
    highest: Float[Tensor, " n"]
    sums: Float[Tensor, " n"]
    correct: Bool[Tensor, " n"] | None  # whether the first of the most probable classes is the true one


def read_rows(probs: Float[Tensor, "n C"], labels: Int[Tensor, " n"] | None) -> RowFacts:
    wide = torch.promote_types(probs.dtype, torch.float32)
    if probs.shape[1] > NARROW:
        highest = probs.amax(dim=1)
        correct = None
        if labels is not None:
            correct = probs.gather(1, labels[:, None])[:, 0] == highest
            _settle_ties(probs, labels, correct, correct & (highest < MAY_BE_SHARED))
        return RowFacts(probs.amin(), highest, probs.sum(dim=1, dtype=wide), correct)
    columns = probs.t().clone(memory_format=torch.contiguous_format)
    low, highest, sums = columns.amin(), columns.amax(dim=0), columns.sum(dim=0, dtype=wide)
    if labels is None:
        return RowFacts(low, highest, sums, None)
    stated = columns.gather(0, labels[None])[0]
    others = columns.scatter_(0, labels[None], -1.0).amax(dim=0)
    correct = stated > others
    _settle_ties(probs, labels, correct, stated == others)
    return RowFacts(low, highest, sums, correct)


def _settle_ties(probs: Tensor, labels: Tensor, correct: Tensor, doubtful: Tensor) -> None:
    """Recompute doubtful rows, whose top class may be tied, by the first of the highest."""
    rows = doubtful.nonzero()[:, 0]
    if len(rows):
        correct[rows] = probs[rows].max(dim=1).indices == labels[rows]


def is_large(table: Tensor, least: int = LARGE) -> bool:
    return (
        table.numel() >= least
        and table.device.type == "cpu"
        and table.dtype in (torch.float32, torch.float64)
        and table.is_contiguous()
    )


def read_table(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"] | None) -> TableFacts:
    """Read every row once; if a value is negative or NaN, the other results may be wrong."""
    wide = probs.shape[1] > NARROW
    target = np.empty(0, dtype=np.int64) if labels is None else labels.numpy()
    return (_read_wide if wide else _read_narrow)(probs.numpy(), target)


def _read_narrow(table: np.ndarray, target: np.ndarray) -> TableFacts:
    from calibrant._math.table_kernels import read_narrow_rows  # compiled

    highest, correct = np.empty(len(target)), np.empty(len(target), dtype=np.bool_)

    def read(rows: slice) -> tuple[float, float, float]:
        return read_narrow_rows(table[rows], target[rows], highest[rows], correct[rows])

    low, high, furthest = np.array(_in_slices(read, table)).T
    return TableFacts(low.min(), high.max(), furthest.max(), *map(torch.from_numpy, (highest, correct)))


def _read_wide(table: np.ndarray, target: np.ndarray) -> TableFacts:
    from calibrant._math.table_kernels import read_wide_rows  # compiled

    bits = table.view(f"i{table.itemsize}")
    shared = int(np.array(MAY_BE_SHARED, dtype=table.dtype).view(bits.dtype))
    highest, correct = np.empty(len(table), dtype=bits.dtype), np.empty(len(target), dtype=np.bool_)

    def read(rows: slice) -> tuple[int, float]:
        return read_wide_rows(table[rows], bits[rows], target[rows], highest[rows], correct[rows], shared)

    lowest, furthest = zip(*_in_slices(read, table), strict=True)
    confidences = highest.view(table.dtype).astype(np.float64)
    # As an integer, -0.0 is less than any negative number, which it would hide.
    low = -math.inf if min(lowest) < 0 else float(np.array(min(lowest), dtype=bits.dtype).view(table.dtype))
    kept = confidences[: len(target)]
    return TableFacts(low, confidences.max(), max(furthest), *map(torch.from_numpy, (kept, correct)))


def large_width_sums(
    probs: Float[Tensor, " N"] | Float[Tensor, "N C"],
    outcomes: Tensor,
    num_bins: int,
    weights: Float[Tensor, " N"] | None,
) -> Float[Tensor, "3 ... {num_bins}"]:
    """Weights, weighted probabilities and weighted outcomes of bins of equal width, of every column.

    Outcomes are those of each probability, or of a table the classes ``(N,)``.
    """
    from calibrant._math.table_kernels import width_sums  # compiled

    table, target = probs, (outcomes if outcomes.ndim == 2 else outcomes[:, None]).contiguous()
    if probs.ndim == 1:
        table, target = probs.to(torch.float64)[:, None], target.to(torch.float64)
    values, happened = table.numpy(), target.numpy()
    mass = np.ones(1) if weights is None else weights.numpy()

    def read(rows: slice) -> np.ndarray:
        return width_sums(values[rows], happened[rows], mass if len(mass) == 1 else mass[rows], num_bins)

    sums = torch.from_numpy(sum(_in_slices(read, values)))
    return sums[:, 0] if probs.ndim == 1 else sums


def _in_slices(read: Callable[[slice], Any], table: np.ndarray) -> list[Any]:
    step = max(1, _SLICE // (table.size // len(table)))
    slices = [slice(start, start + step) for start in range(0, len(table), step)]
    return list(in_threads(read, slices, most=torch.get_num_threads()))
