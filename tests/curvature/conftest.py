"""A tiny network whose Hessian can be written down whole."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn


@pytest.fixture(scope="session")
def stored(golden) -> dict[str, Any]:
    """Parameters, data and exact results of the reference."""
    return golden("hessian.json")


@pytest.fixture
def tiny(stored) -> nn.Module:
    """Linear(6, 8), tanh, Linear(8, 4) in float64 at the reference's parameters."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)).double()
    state = {name: torch.tensor(value, dtype=torch.float64) for name, value in stored["params"].items()}
    model.load_state_dict(state)
    return model


@pytest.fixture
def samples(stored) -> tuple[Tensor, Tensor]:
    """The reference's 40 inputs and labels."""
    return torch.tensor(stored["X"], dtype=torch.float64), torch.tensor(stored["Y"])


@pytest.fixture
def batches(samples) -> list[tuple[Tensor, Tensor]]:
    inputs, labels = samples
    return list(zip(inputs.split([7, 23, 10]), labels.split([7, 23, 10]), strict=True))
