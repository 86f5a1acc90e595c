"""What a loss computes in closed form is what its plain form gives, also where there are many classes."""

import pytest
import torch
from torch import Tensor

from calibrant import losses
from rosters_losses import Loss

TOLERANCES = {
    torch.float64: {"rtol": 1e-9, "atol": 1e-11},
    torch.float32: {"rtol": 2e-4, "atol": 2e-5},
}


def problem(loss: Loss, dtype: torch.dtype, scale: float) -> tuple[Tensor, Tensor]:
    """Logits of 90 samples and 700 classes; half of the labels right, some ignored, and once a tie."""
    generator = torch.Generator().manual_seed(3)
    logits = (scale * torch.randn(90, 700, generator=generator, dtype=torch.float64)).to(dtype)
    if loss.multilabel:
        labels = torch.randint(2, logits.shape, generator=generator)
        labels[:, 7] = -100
        return logits, labels
    labels = torch.randint(700, (90,), generator=generator)
    labels[::2] = logits.argmax(1)[::2]
    labels[5] = -100
    if scale == 2:
        logits[8, 3] = logits[8].max()
    return logits, labels


def by_the_plain_form(loss: Loss, logits: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient as the transforms of torch.func have them."""
    found = torch.func.grad_and_value(lambda z: loss(z, labels, weight=weight))(logits)
    return found[1], found[0]


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.float64, 0.1), (torch.float64, 2.0), (torch.float32, 2.0), (torch.float32, 20.0)],
    ids=str,
)
def test_as_the_plain_form(loss: Loss, dtype: torch.dtype, scale: float) -> None:
    logits, labels = problem(loss, dtype, scale)
    weight = torch.linspace(0.5, 2, 700, dtype=dtype)
    expected_value, expected = by_the_plain_form(loss, logits, labels, weight)
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, labels, weight=weight)
    torch.testing.assert_close(value.detach(), expected_value, **TOLERANCES[dtype])
    (gradient,) = torch.autograd.grad(value, leaf)
    torch.testing.assert_close(90 * gradient, 90 * expected, **TOLERANCES[dtype])


@pytest.mark.parametrize("gamma", [0.3, 1.0, 3.0, 5.0, 6.0])
@pytest.mark.parametrize("num_classes", [2, 3, 40])
def test_proper_focal_loss_of_any_exponent(gamma: float, num_classes: int) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = 4 * torch.randn(5000, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(num_classes, (5000,), generator=generator)
    module = losses.ProperFocalLoss(gamma=gamma, reduction="sum")
    expected, value = torch.func.grad_and_value(module)(logits, labels)
    leaf = logits.clone().requires_grad_()
    loss = module(leaf, labels)
    torch.testing.assert_close(loss.detach(), value, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.autograd.grad(loss, leaf)[0], expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["multilabel-focal", "multilabel-focal-calibration"])
def test_labels_as_numbers(name: str) -> None:
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(50, 6, generator=generator, dtype=torch.float64)
    labels = torch.randint(2, (50, 6), generator=generator)
    module = losses.build(name)
    for each in (labels.double(), labels.bool(), labels.to(torch.uint8)):
        torch.testing.assert_close(module(logits, each), module(logits, labels), rtol=1e-14, atol=0)
    half = module(logits, torch.full_like(logits, 0.5))
    ends = module(logits, torch.zeros_like(labels)) + module(logits, torch.ones_like(labels))
    if name == "multilabel-focal":
        torch.testing.assert_close(half, ends / 2)
    else:
        assert half < ends / 2
