"""How many threads torch takes."""

import threading
from collections.abc import Iterator

import pytest
import torch

from calibrant._math.machine import SMALL, in_threads, threads_for


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("entries", "threads"), [(SMALL - 1, 1), (SMALL, 2)])
def test_small_tables_take_one_thread(entries: int, threads: int) -> None:
    with threads_for(entries):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


def test_threads_come_back_after_an_error() -> None:
    with pytest.raises(KeyError, match="here"), threads_for(1):
        raise KeyError("here")
    assert torch.get_num_threads() == 2


def test_results_come_in_the_order_of_the_items() -> None:
    second_is_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second_is_done.wait(timeout=30)
        elif item == 1:
            second_is_done.set()
        return item * item

    assert list(in_threads(work, range(5), most=2)) == [0, 1, 4, 9, 16]


def test_one_thread_is_the_callers() -> None:
    """Nothing is started for one item, or where one thread is all there may be."""
    here = threading.get_ident()
    for items, most in (([0], 4), ([0, 1, 2], 1)):
        assert set(in_threads(lambda _: threading.get_ident(), items, most=most)) == {here}
    assert list(in_threads(str, [])) == []


def test_errors_come_through() -> None:
    def work(item: int) -> int:
        if item == 2:
            raise KeyError("here")
        return item

    found = in_threads(work, range(4), most=2)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(KeyError, match="here"):
        next(found)
