"""Focal loss beyond the contract: its closed form at all sizes, and curvature where it is sure."""

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrant import losses


def plain(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """Focal loss written out with autograd in float64."""
    log_probs = torch.log_softmax(logits, 1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return (-((1 - log_probs.exp()) ** gamma) * log_probs).mean()


@pytest.mark.parametrize("num_samples", [12, 5000])
def test_any_layout_in_memory(num_samples: int) -> None:
    """Logits that lie by columns, with gaps, or repeated have the loss and gradient of their copy."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (num_samples,), generator=generator)
    for logits in (
        torch.randn(4, num_samples, generator=generator).T,
        torch.randn(num_samples, 8, generator=generator)[:, ::2],
        torch.randn(1, 4, generator=generator).expand(num_samples, 4),
    ):
        leaf, copy = logits.detach().requires_grad_(), logits.contiguous().requires_grad_()
        value, expected = (losses.focal_loss(each, labels, gamma=2.0) for each in (leaf, copy))
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-7)
        gradients = torch.autograd.grad(value, leaf)[0], torch.autograd.grad(expected, copy)[0]
        torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("num_samples", [12, 5000])
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("label", [-1, 4, 7])
def test_labels_out_of_range(num_samples: int, place: int, label: int) -> None:
    """A label that is no class is refused, in few rows as in many, also where another row lies behind."""
    labels = torch.zeros(num_samples, dtype=torch.int64)
    labels[place] = label
    with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
        losses.focal_loss(torch.zeros(num_samples, 4), labels, gamma=2.0)


@pytest.mark.parametrize("num_classes", [3, 200])
def test_underflow_of_one_row_among_many(num_classes: int) -> None:
    """One probability that underflows in float32 keeps its loss, and the other rows theirs."""
    logits = torch.randn(16, num_classes, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(16, dtype=torch.int64)
    logits[5, 0] = -500.0
    values = losses.focal_loss(logits, labels, gamma=2, reduction="none")
    exact = losses.focal_loss(logits.double(), labels, gamma=2, reduction="none")
    torch.testing.assert_close(values, exact.float(), rtol=1e-5, atol=1e-7)
    assert values[5] > 499


@pytest.mark.parametrize("gamma", [0.25, 0.5, 1.5, 1.9])
def test_finite_curvature_where_it_is_sure(gamma: float) -> None:
    """Gradient and Hessian are finite at gaps where 1 - p is zero in floating point."""
    for gap in (40.0, 100.0, 1e4):
        for dtype in (torch.float32, torch.float64):
            logits = torch.tensor([[gap, 0.0, 0.0]], dtype=dtype)
            hessian = torch.autograd.functional.hessian(
                lambda z: losses.focal_loss(z, torch.tensor([0]), gamma=gamma), logits
            )
            assert hessian.isfinite().all()


def test_no_gradient_is_kept_without_need() -> None:
    logits = torch.randn(4, 3)
    assert not losses.focal_loss(logits, torch.tensor([0, 1, 2, 0])).requires_grad
    with torch.no_grad():
        assert losses.focal_loss(logits.requires_grad_(), torch.tensor([0, 1, 2, 0])).grad_fn is None
    with torch.inference_mode():
        assert losses.focal_loss(torch.randn(4, 3), torch.tensor([0, 1, 2, 0])).isfinite()


@pytest.mark.parametrize("num_classes", [2, 8192])
@pytest.mark.parametrize("margin", [38.9, 39.1, 45.0])
def test_where_the_short_way_ends(num_classes: int, margin: float) -> None:
    """Few logits as far apart as the short way takes, and a little farther: as written out."""
    logits = torch.full((1, num_classes), margin)
    logits[0, 0] = -margin
    labels = torch.zeros(1, dtype=torch.int64)
    leaf, wide = logits.clone().requires_grad_(), logits.double().requires_grad_()
    value, expected = losses.focal_loss(leaf, labels), plain(wide, labels, 3.0)
    torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(
        torch.autograd.grad(value, leaf)[0].double(),
        torch.autograd.grad(expected, wide)[0],
        rtol=1e-5,
        atol=1e-12,
    )


def test_settings_of_numpy_do_not_matter() -> None:
    with np.errstate(all="raise"):
        value = losses.focal_loss(torch.tensor([[38.5, -38.5, 0.0]] * 2), torch.tensor([0, 1]))
    assert value.item() == pytest.approx(77 / 2, rel=1e-6)


@pytest.mark.parametrize("num_rows", [2, 5000])
def test_a_label_of_probability_zero(num_rows: int) -> None:
    logits = torch.tensor([[0.0, -torch.inf, 1.0]]).repeat(num_rows, 1).requires_grad_()
    labels = torch.ones(num_rows, dtype=torch.int64)
    value = losses.focal_loss(logits, labels)
    assert value.item() == torch.inf
    expected = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, labels), logits)[0]
    torch.testing.assert_close(torch.autograd.grad(value, logits)[0], expected)
