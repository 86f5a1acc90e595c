"""A small likeness of many samples."""

import math

import pytest
import torch

from calibrant.calibrators.fitting.grid import best_on_grid
from calibrant.calibrators.fitting.objectives import objective_value, smooth_objective
from calibrant.calibrators.fitting.samples import Samples


@pytest.mark.parametrize("weighted", [False, True])
def test_events_keep_their_weight_and_mean(weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1001, generator=generator)
    labels = (torch.rand(1001, generator=generator) < 0.2).long()
    weights = torch.rand(1001, generator=generator, dtype=torch.float64) if weighted else None
    samples = Samples(scores, labels, weights)
    small = samples.thinned(64)
    assert small.num_samples == 64
    for label in (0, 1):
        shares, few = samples.shares[labels == label], small.shares[small.labels == label]
        assert few.sum().item() == pytest.approx(shares.sum().item(), abs=1e-14)
        mean = (shares * scores[labels == label]).sum().item()
        assert (few * small.scores[small.labels == label]).sum().item() == pytest.approx(mean, abs=1e-14)


def test_gathered_events_have_nearly_the_loss_of_all() -> None:
    """512 rows tell the loss of 20 000 to a ten-thousandth; a sample of 512 misses it by a hundredth."""
    generator = torch.Generator().manual_seed(1)
    scores = 3 * torch.randn(20_000, generator=generator, dtype=torch.float64)
    labels = (torch.rand(20_000, generator=generator) < torch.sigmoid(scores / 2)).long()
    samples = Samples(scores, labels, None)
    for temperature, gamma in ((1.0, 0.0), (2.0, 0.0), (0.7, 3.0), (2.5, -0.8)):
        whole = smooth_objective(samples, "nll", temperature, gamma).value
        small = smooth_objective(samples.thinned(512), "nll", temperature, gamma).value
        assert small == pytest.approx(whole, abs=1e-4)


def test_rows_in_a_rhythm() -> None:
    """Labels that take turns are all there in a likeness, each about as often: |z| < 4."""
    labels = torch.arange(10_240) % 10
    small = Samples(torch.zeros(10_240, 10), labels, None).thinned(1024)
    assert small.num_samples == 1024
    counts = torch.bincount(small.labels, minlength=10)
    assert (counts - 102.4).abs().max().item() < 4 * math.sqrt(1024 * 0.1 * 0.9)


def test_rows_of_much_weight() -> None:
    """Rows come into a likeness in proportion to their weight, the heaviest of all included."""
    weights = torch.ones(3001, dtype=torch.float64)
    weights[1234] = 3000.0
    labels = torch.zeros(3001, dtype=torch.int64)
    labels[1234] = 1
    small = Samples(torch.zeros(3001, 2), labels, weights).thinned(100)
    assert (small.shares @ small.labels.double()).item() == pytest.approx(0.5, abs=0.02)


def test_rows_in_a_rhythm_on_a_grid() -> None:
    """Where every tenth row is far too sure, the best temperature is still that of all rows."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(10_240, 10, generator=generator)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    logits[::10] *= 8
    samples, temperatures = Samples(logits, labels, None), [0.1 * step for step in range(1, 61)]
    found, _ = best_on_grid(samples, "ece", (0.0,), temperatures)
    assert found.value == min(objective_value(samples, "ece", each, 0.0) for each in temperatures)


@pytest.mark.parametrize(
    ("scores", "constant"),
    [
        ([[0.0, 0.0, 0.0], [3.0, 3.0, 3.0]], True),
        ([[0.0, 0.0, 0.0], [3.0, 3.0, 2.0]], False),
        ([[0.0, 0.0, 1.0], [3.0, 3.0, 3.0]], False),
        ([0.0, 0.0], True),
        ([0.0, 1.0], False),
    ],
)
def test_logits_say_nothing_where_each_row_is_constant(scores: list[object], constant: bool) -> None:
    """Each row by itself: a number added to all logits of a sample says nothing. Log-odds must be zero."""
    samples = Samples(torch.tensor(scores, dtype=torch.float64), torch.tensor([0, 1]), None)
    assert samples.is_constant is constant
