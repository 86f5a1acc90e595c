"""A calibrator of an event maps the two logits of a network, too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from calibrant._math.errors import without_warnings
from calibrant.calibrators import CalibratedModel, available, build, fit_groups

BINARY = [name for name in available() if "binary" in build(name).kinds]


@pytest.fixture(scope="module")
def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Over-confident log-odds, and what happened."""
    rng = np.random.default_rng(3)
    odds = rng.normal(size=400)
    return torch.tensor(3 * odds), torch.tensor(rng.random(400) < 1 / (1 + np.exp(-odds))).long()


@pytest.mark.parametrize("name", BINARY)
def test_two_logits_are_their_difference(name, data) -> None:
    """Probabilities are those of the log-odds and their complement, log-probabilities the logarithms."""
    odds, labels = data
    with without_warnings():
        fitted = build(name).fit(odds, labels)
    columns = torch.stack([torch.linspace(-2, 2, 400, dtype=torch.float64), odds], dim=1)
    columns[:, 1] += columns[:, 0]
    expected = fitted.predict_proba(columns[:, 1] - columns[:, 0])
    torch.testing.assert_close(fitted.predict_proba(columns), torch.stack([1 - expected, expected], 1))
    torch.testing.assert_close(fitted(columns).exp(), torch.stack([1 - expected, expected], 1))


def test_a_network_of_two_outputs_takes_it(data) -> None:
    """Gradients go through, half precision stays, and a shift of both logits changes nothing."""
    fitted = build("platt").fit(*data)
    network = nn.Linear(3, 2).double()
    inputs = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    model = CalibratedModel(network, fitted)
    found = model(inputs)
    torch.testing.assert_close(found.logsumexp(dim=1), torch.zeros(5, dtype=torch.float64))
    torch.testing.assert_close(model.calibrator(network(inputs) + 7), found)
    found.sum().backward()
    assert network.weight.grad is not None
    assert bool(network.weight.grad.any())
    assert fitted(network(inputs).half()).dtype == torch.float16


def test_by_group_as_well(data) -> None:
    """Rows of two columns go to the calibrator of their group."""
    odds, labels = data
    groups = ["a", "b"] * 200
    with without_warnings():
        fitted = fit_groups("temperature", odds, labels, groups=groups)
    expected = fitted.predict_proba(odds, groups=groups)
    columns = torch.stack([torch.zeros_like(odds), odds], dim=1)
    torch.testing.assert_close(fitted.predict_proba(columns, groups=groups)[:, 1], expected)


@pytest.mark.parametrize("name", ["temperature", "platt"])
def test_a_layer_of_two_outputs_takes_it_up(name, data) -> None:
    """Folded into the last layer it gives the probabilities that it gives as a module."""
    fitted = build(name).fit(*data)
    layer = nn.Linear(3, 2).double()
    inputs = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    folded = fitted.fold_into(layer)(inputs).softmax(dim=1)
    torch.testing.assert_close(folded, fitted.predict_proba(layer(inputs)))
