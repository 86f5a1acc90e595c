"""AdaFocal's state: exponents and edges through twelve updates, switching, and saving."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from calibrant import losses

# The authors' metric is float32, and so are the exponents in their loss.
SINGLE = {"rtol": 1e-6, "atol": 1e-6}


def test_twelve_rounds_of_the_authors_code(golden: Callable[[str], Any]) -> None:
    content = golden("adafocal.json")
    logits = torch.tensor(content["train_logits"], dtype=torch.float64)
    labels = torch.tensor(content["train_labels"])
    probs = torch.softmax(logits, 1).gather(1, labels.unsqueeze(1)).squeeze(1)
    module = losses.AdaFocalLoss(reduction="sum")
    negative = 0
    for step in content["rounds"]:
        correct = torch.tensor([int(c) for c in step["val_correct"]])
        module.update(torch.tensor(step["val_conf"], dtype=torch.float64), correct)
        gammas, lower, upper = torch.tensor(step["gamma_lower_upper_after"], dtype=torch.float64).T
        torch.testing.assert_close(module.gammas, gammas, **SINGLE)
        torch.testing.assert_close(module.edges, torch.cat([lower[:1], upper]), **SINGLE)
        values = module.__class__(reduction="none")
        values.load_state_dict(module.state_dict())
        expected = torch.tensor(step["train_gammas"], dtype=torch.float64)
        power = torch.where(expected >= 0, (1 - probs) ** expected, (1 + probs) ** -expected)
        torch.testing.assert_close(values(logits, labels), -power * probs.log(), **SINGLE)
        leaf = logits.clone().requires_grad_()
        loss = module(leaf, labels)
        # A sum of 64 values.
        torch.testing.assert_close(loss.item(), step["loss_sum"], rtol=1e-6, atol=1e-4)
        if "grad" in step:
            rows = torch.tensor(step["grad"], dtype=torch.float64)
            torch.testing.assert_close(torch.autograd.grad(loss, leaf)[0][: len(rows)], rows, **SINGLE)
        negative += int((expected < 0).sum())
    assert negative > 0  # the inverse branch was taken


def test_an_edge_belongs_to_the_bin_above() -> None:
    """A probability of exactly one half, where a bin ends, has the exponent of the next one."""
    gammas, edges = torch.tensor([2.0, -1.0]), torch.tensor([0.0, 0.5, 1.0])
    found = losses.adafocal_loss(torch.zeros(1, 2), torch.tensor([0]), gammas=gammas, edges=edges)
    assert found.item() == pytest.approx(1.5 * math.log(2), rel=1e-6)


def test_starts_as_focal_loss() -> None:
    logits = torch.randn(16, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(16) % 5
    for gamma in (1.0, 2.5):
        value = losses.AdaFocalLoss(initial_gamma=gamma)(logits, labels)
        torch.testing.assert_close(value, losses.focal_loss(logits, labels, gamma=gamma), rtol=1e-12, atol=0)


def test_state_survives_saving(tmp_path: Any) -> None:
    module = losses.AdaFocalLoss(num_bins=4)
    generator = torch.Generator().manual_seed(1)
    confidences = torch.rand(200, generator=generator)
    for _ in range(30):
        module.update(confidences, torch.rand(200, generator=generator) < 0.99)
    assert (module.gammas < 0).any()
    torch.save(module.state_dict(), tmp_path / "loss.pt")
    again = losses.AdaFocalLoss(num_bins=4)
    again.load_state_dict(torch.load(tmp_path / "loss.pt", weights_only=True))
    logits, labels = torch.randn(32, 3, generator=generator), torch.arange(32) % 3
    assert torch.equal(module(logits, labels), again(logits, labels))
    assert not torch.equal(module(logits, labels), losses.AdaFocalLoss(num_bins=4)(logits, labels))


def test_gap_moves_the_exponent() -> None:
    gammas = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    gaps = torch.tensor([0.3, -0.3, 0.0, 0.3, -0.3], dtype=torch.float64)
    expected = torch.tensor([0.3, -0.3, 0.0, -0.3, 0.3], dtype=torch.float64).exp() * gammas.sign()
    torch.testing.assert_close(losses.updated_gammas(gammas, gaps), expected, rtol=1e-15, atol=0)


def test_switch_and_bounds() -> None:
    gammas = torch.tensor([0.21, -0.21, 19.0, -1.9], dtype=torch.float64)
    gaps = torch.tensor([-0.5, 0.5, 1.0, -1.0], dtype=torch.float64)
    assert losses.updated_gammas(gammas, gaps).tolist() == [-0.2, 0.2, 20.0, -2.0]


def test_equal_confidences() -> None:
    module = losses.AdaFocalLoss(num_bins=5)
    module.update(torch.full((50,), 0.9), torch.ones(50))
    assert (module.edges == module.edges[0]).all()
    assert module(torch.randn(8, 3), torch.arange(8) % 3).isfinite()


def test_the_derivative_is_finite_where_the_power_of_the_other_side_overflows() -> None:
    """Exponents below zero do not see 1 - p: with targets too, a certain row has the derivative zero."""
    logits = torch.tensor([[800.0, 0.0]], dtype=torch.float64, requires_grad=True)
    loss = losses.adafocal_loss(
        logits,
        targets=torch.tensor([[1.0, 0.0]], dtype=torch.float64),
        gammas=torch.tensor([-1.5, -1.5]),
        edges=torch.tensor([0.0, 0.5, 1.0]),
    )
    assert torch.autograd.grad(loss, logits)[0].tolist() == [[0.0, 0.0]]
