"""Hands the roster of calibrators, each with the kinds of predictions it is for, to the tests that ask."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from few_points import few_points
from rosters_calibrators import CALIBRATORS, FIRST_OF_CLASS, in_turns

SEARCHING = [entry for entry in CALIBRATORS if not entry.searched_as_another]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of the test for every calibrator that searches in its own way; its kinds are asked in turns.

    Of a ``class_entry`` only the first settings of each class: what comes before a search knows no others.
    """
    turn = [*vars(metafunc.module)].index(metafunc.function.__name__)
    for name, entries in (("searching_entry", SEARCHING), ("class_entry", FIRST_OF_CLASS.values())):
        if name in metafunc.fixturenames:
            pairs = [
                pytest.param(entry, kind, id=f"{entry.name}-{kind}")
                for entry in entries
                for kind in in_turns(entry, entry.kinds, turn)
            ]
            metafunc.parametrize((name, "kind"), pairs)


@pytest.fixture(name="few_points")
def _few_points() -> Iterator[None]:
    with few_points():
        yield


class Data(NamedTuple):
    """Scores, and labels drawn from the probabilities they state."""

    scores: Tensor
    labels: Tensor


@pytest.fixture(scope="session")
def calibrated() -> Callable[..., Data]:
    def make(kind: str, num_samples: int, *, scale: float = 2.0, seed: int = 7) -> Data:
        generator = torch.Generator().manual_seed(seed)
        shape = {"binary": (num_samples,), "multiclass": (num_samples, 4), "multilabel": (num_samples, 2)}[
            kind
        ]
        scores = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
        if kind == "multiclass":
            probs = torch.softmax(scores, dim=1)
            return Data(scores, torch.multinomial(probs, 1, generator=generator)[:, 0])
        return Data(scores, torch.bernoulli(torch.sigmoid(scores), generator=generator).to(torch.int64))

    return make
