"""Penalties of the whole batch: MMCE, MDCA and the smooth calibration error."""

import pytest
import torch

from calibrant import losses
from calibrant._math.lipschitz import smooth_calibration_error


def batch(*rows: tuple[float, bool], num_classes: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels with these confidences in class 0, right or wrong."""
    confidences = torch.tensor([confidence for confidence, _ in rows], dtype=torch.float64)
    others = ((1 - confidences) / (num_classes - 1)).unsqueeze(1).expand(-1, num_classes - 1)
    labels = torch.tensor([0 if right else 1 for _, right in rows])
    return torch.cat([confidences.unsqueeze(1), others], 1).log(), labels


def test_mmce_of_one_kind_is_zero() -> None:
    """If every prediction is right, or every one wrong, weighted MMCE is zero, its gradient too."""
    for right in (True, False):
        logits, labels = batch((0.9, right), (0.7, right))
        leaf = logits.requires_grad_()
        for as_published in (False, True):
            penalty = losses.mmce_loss(leaf, labels, as_published=as_published)
            penalty = penalty - losses.cross_entropy_loss(leaf, labels)
            assert penalty == 0
            assert torch.autograd.grad(penalty, leaf)[0].abs().max() < 1e-15


def test_mmce_as_published_shrinks_with_the_batch() -> None:
    logits, labels = batch((0.9, True), (0.8, False), (0.6, True), (0.7, False))
    entropy = losses.cross_entropy_loss(logits, labels)

    def penalty(times: int, as_published: bool) -> float:
        repeated = logits.repeat(times, 1), labels.repeat(times)
        return (losses.mmce_loss(*repeated, penalty=1.0, as_published=as_published) - entropy).item()

    assert penalty(8, as_published=False) == pytest.approx(penalty(1, as_published=False), rel=1e-7)
    assert penalty(8, as_published=True) == pytest.approx(penalty(1, as_published=True) / 8, rel=1e-3)


def test_mmce_of_a_large_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(700, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(4, (700,), generator=generator)
    confidences, predictions = torch.softmax(logits, 1).max(1)
    residuals = ((predictions == labels).double() - confidences) / 700
    kernel = (-(confidences[:, None] - confidences).abs() / 0.4).exp()
    expected = (residuals @ kernel @ residuals + 1e-10).sqrt()
    value = losses.mmce_loss(logits, labels, penalty=1.0, weighted=False, as_published=False)
    value = value - losses.cross_entropy_loss(logits, labels)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)


def test_mdca_of_a_calibrated_batch() -> None:
    logits, labels = batch((0.75, True), (0.75, True), (0.75, True), (0.75, False))
    value = losses.mdca_loss(logits, labels, penalty=5.0)
    torch.testing.assert_close(value, losses.cross_entropy_loss(logits, labels), rtol=1e-12, atol=1e-12)


def test_smooth_penalty_is_the_smooth_calibration_error() -> None:
    generator = torch.Generator().manual_seed(0)
    confidences = torch.rand(300, generator=generator, dtype=torch.float64)
    outcomes = (torch.rand(300, generator=generator) < 0.5).double()
    value = losses.smooth_calibration_penalty(confidences, outcomes)
    expected = smooth_calibration_error(confidences.numpy(), outcomes.numpy())
    assert value.item() == pytest.approx(expected, abs=1e-14)


def test_smooth_penalty_can_be_trained_away() -> None:
    confidences = torch.full((64,), 0.95, dtype=torch.float64) + torch.linspace(-0.02, 0.02, 64).double()
    outcomes = (torch.arange(64) % 2).double()
    start = losses.smooth_calibration_penalty(confidences, outcomes).item()
    for _ in range(100):
        leaf = confidences.requires_grad_()
        (gradient,) = torch.autograd.grad(losses.smooth_calibration_penalty(leaf, outcomes), leaf)
        confidences = (confidences - 0.3 * gradient).detach()
    assert start > 0.4
    assert losses.smooth_calibration_penalty(confidences, outcomes) < 0.1


def test_smooth_penalty_is_differentiable_once() -> None:
    leaf = torch.rand(8, dtype=torch.float64, requires_grad=True)
    value = losses.smooth_calibration_penalty(leaf, torch.ones(8))
    (gradient,) = torch.autograd.grad(value, leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiable once"):
        gradient.sum().backward()


def test_smooth_penalty_passes_nan_through() -> None:
    confidences = torch.tensor([0.5, float("nan")])
    assert losses.smooth_calibration_penalty(confidences, torch.ones(2)).isnan()
    assert losses.smooth_calibration_penalty(torch.rand(2), torch.ones(2), weights=torch.zeros(2)).isnan()


def test_mixed_labels_are_compared_with_the_mean_confidence() -> None:
    """MDCA under soft targets: the frequency of a class is the mean of its shares, and ours is worked out."""
    logits = torch.tensor([[0.8, 0.2], [0.6, 0.4]], dtype=torch.float64).log()
    targets = torch.tensor([[0.7, 0.3], [0.1, 0.9]], dtype=torch.float64)  # frequencies (0.4, 0.6)
    found = losses.mdca_loss(logits, targets=targets) - losses.cross_entropy_loss(logits, targets=targets)
    assert found.item() == pytest.approx(0.3, abs=1e-12)


def test_mixed_labels_are_right_with_a_probability() -> None:
    """The smooth calibration error under soft targets: the top class is right with its share."""
    logits = torch.tensor([[0.75, 0.25], [0.75, 0.25]], dtype=torch.float64).log()
    targets = torch.tensor([[0.7, 0.3], [0.4, 0.6]], dtype=torch.float64)  # 0.55 on average
    found = losses.smooth_calibration_loss(logits, targets=targets)
    found = found - losses.cross_entropy_loss(logits, targets=targets)
    assert found.item() == pytest.approx(0.2, abs=1e-12)
