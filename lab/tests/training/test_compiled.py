"""Gradients of compiled networks; nothing is compiled, which would take half a minute."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from calibrant._math.errors import InputError
from calibrant_lab.training import train
from calibrant_lab.training.learner import Learner, check_compiled


@pytest.fixture
def network() -> nn.Sequential:
    """With buffers that change in training, and dropout."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("slip", "words"), [(0.02, None), (1.0, "0.weight is off by 100 % for a batch of 8;")]
)
def test_wrong_gradients_are_refused(network, slip, words) -> None:
    """Rounding passes, a gradient that is missing does not; buffers and random numbers stay as they were."""
    inputs, begun = torch.randn(8, 3), [each.clone() for each in network.buffers()]
    state = torch.get_rng_state()

    def loss(share: float) -> torch.Tensor:
        hidden = network[0](inputs)
        hidden = share * hidden.detach() + (1 - share) * hidden
        return network[1:](hidden).square().sum()

    if words is None:
        check_compiled(network, lambda: loss(0.0), lambda: loss(slip), batch_size=8)
    else:
        with pytest.raises(InputError, match=words):
            check_compiled(network, lambda: loss(0.0), lambda: loss(slip), batch_size=8)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one, other) for one, other in zip(network.buffers(), begun, strict=True))


@pytest.mark.usefixtures("short_reports")
def test_a_training_checks_each_size_of_batch_once(recipe, tmp_path, monkeypatch) -> None:
    """Two hundred samples in batches of 48 leave one of eight; the numbers are those without compiling."""
    sizes: list[int] = []
    check = Learner._check_compiled

    def counted(self, inputs, labels) -> None:
        sizes.append(len(inputs))
        check(self, inputs, labels)

    monkeypatch.setattr(Learner, "_check_compiled", counted)
    monkeypatch.setattr(torch, "compile", lambda model, **_options: model)
    one = train(recipe.with_settings(["hardware.compile=true"]), tmp_path / "one", report=False)
    assert sizes == [48, 8]
    other = train(recipe, tmp_path / "other", report=False)
    assert torch.equal(one.predictions.scores, other.predictions.scores)
