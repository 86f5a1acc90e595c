"""Fitted parameters that are more than one number."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def stack_tables(tables: Sequence[Tensor]) -> Tensor:
    """The table of a single problem; of several the stack, short rows continued with their last entry."""
    if len(tables) == 1:
        return tables[0]
    longest = max((table.shape[-1] for table in tables if table.ndim), default=0)
    return torch.stack([_lengthened(table, longest) for table in tables])


def fits_shape(shape: Sequence[int], letters: Sequence[str], sizes: dict[str, int]) -> bool:
    """Whether every letter stands for one size throughout; letters not yet in ``sizes`` are added."""
    return len(shape) == len(letters) and all(
        sizes.setdefault(letter, size) == size for letter, size in zip(letters, shape, strict=True)
    )


def _lengthened(table: Tensor, length: int) -> Tensor:
    if not table.ndim or table.shape[-1] == length:
        return table
    last = table[..., -1:].expand(*table.shape[:-1], length - table.shape[-1])
    return torch.cat([table, last], dim=-1)
