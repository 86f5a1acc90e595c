"""How many threads torch takes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch

SMALL = 1 << 20
"""Entries of a table below which waking threads costs more than they bring, up to several times as much."""


@contextmanager
def threads_for(num_entries: int) -> Generator[None]:
    """One thread for operations on so few entries, afterwards as many as before."""
    before = torch.get_num_threads()
    if num_entries >= SMALL or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
