"""How many threads torch takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from calibrant._math.threads import SMALL, threads_for


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Two threads, and afterwards what there was."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("entries", "threads"), [(SMALL - 1, 1), (SMALL, 2)])
def test_small_tables_take_one_thread(entries: int, threads: int) -> None:
    """One for few entries, all for many, and all again afterwards."""
    with threads_for(entries):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


def test_threads_come_back_after_an_error() -> None:
    """Also after an error there are as many as before."""
    with pytest.raises(KeyError, match="here"), threads_for(1):
        raise KeyError("here")
    assert torch.get_num_threads() == 2
