"""Where the expected loss has its minimum: at the truth for proper losses, elsewhere as theory says."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from calibrant import losses, theory

# torch says so of itself when forward mode is first used.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

BINARY = (0.8, 0.2)
THREE = (0.55, 0.3, 0.15)


def risk_minimiser(loss: Callable[..., Tensor], posterior: tuple[float, ...], **options: object) -> Tensor:
    return theory.risk_minimiser(partial(loss, **options), torch.tensor(posterior, dtype=torch.float64)).probs


# Other proper losses, and those with one planted fault, meet ``asks_for_the_truth`` of the laws.
@pytest.mark.parametrize(
    "proper",
    [
        partial(losses.focal_calibration_loss, gamma=0, calibration_weight=1.0),
        partial(losses.proper_focal_loss, gamma=0.5),
        partial(losses.proper_focal_loss, gamma=3.0),
        partial(losses.margin_label_smoothing_loss, margin=3.0, penalty=1.0),
    ],
    ids=["fcl_0", "proper_focal_half", "proper_focal_3", "margin"],
)
def test_proper_losses_ask_for_the_truth(proper: Callable[..., Tensor]) -> None:
    """The expected proper loss is least at the true probabilities (margin smoothing: within its margin)."""
    for posterior in (BINARY, THREE):
        assert risk_minimiser(proper, posterior).tolist() == pytest.approx(posterior, abs=1e-8)


@pytest.mark.parametrize(
    ("gamma", "expected"), [(0.5, 0.734575), (1, 0.685831), (2, 0.626615), (3, 0.594478), (5, 0.561929)]
)
def test_focal_loss_asks_for_less(gamma: float, expected: float) -> None:
    """For an event of probability 0.8 focal loss asks for less, the less the larger the exponent."""
    # Five decimals were tabulated.
    assert risk_minimiser(losses.focal_loss, BINARY, gamma=gamma)[0].item() == pytest.approx(
        expected, abs=1e-6
    )


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        (0, 0.62661),
        (0.1, 0.63893),
        (0.5, 0.67442),
        (1, 0.70108),
        (1.5, 0.71808),
        (4.5, 0.75882),
        (10, 0.77813),
    ],
)
def test_focal_calibration_loss_is_not_proper(weight: float, expected: float) -> None:
    """Whatever its weight, the squared distance pulls the minimum towards the truth and not into it."""
    found = risk_minimiser(losses.focal_calibration_loss, BINARY, gamma=2, calibration_weight=weight)
    assert found[0].item() == pytest.approx(expected, abs=1e-5)  # as tabulated


def test_focal_calibration_loss_for_three_classes() -> None:
    found = risk_minimiser(losses.focal_calibration_loss, THREE, gamma=2, calibration_weight=0.5)
    assert found.tolist() == pytest.approx([0.4736, 0.3287, 0.1977], abs=5e-5)  # as tabulated


def test_focal_loss_can_ask_for_more() -> None:
    """With 100 classes and a top probability of 0.2 focal loss asks for 0.2131: over-confident."""
    truth = torch.tensor((0.2, *[0.8 / 99] * 99), dtype=torch.float64)

    def risk(logits: Tensor) -> Tensor:
        values = losses.focal_loss(logits.expand(100, -1), torch.arange(100), gamma=1, reduction="none")
        return (truth * values).sum()

    def risk_along(top: Tensor) -> Tensor:
        return risk(torch.cat([top, top.new_zeros(99)]))

    top = torch.tensor([3.0], dtype=torch.float64)
    for _ in range(6):  # Newton's method; the others are alike
        slope = torch.func.grad(risk_along)(top)
        top = top - slope / torch.func.hessian(risk_along)(top)[0]
    logits = torch.cat([top, top.new_zeros(99)])
    assert torch.func.grad(risk)(logits).abs().max() < 1e-9  # in all directions
    for way in 1e-3 * torch.randn(20, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64):
        assert risk(logits + way) > risk(logits)
    assert torch.softmax(logits, 0)[0].item() == pytest.approx(0.2131, abs=5e-5)  # as tabulated


def test_label_smoothing_asks_for_the_smoothed_truth() -> None:
    found = risk_minimiser(losses.label_smoothing_loss, THREE, smoothing=0.3)
    expected = 0.7 * torch.tensor(THREE, dtype=torch.float64) + 0.1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_margin_smoothing_beyond_its_margin() -> None:
    found = risk_minimiser(losses.margin_label_smoothing_loss, BINARY, margin=0.5, penalty=0.2)
    assert 0.5 < found[0] < 0.8


def test_absolute_distance_asks_for_certainty() -> None:
    """The distance "l1" alone falls all the way to a vertex, which is why it spoils calibration."""
    truth = torch.tensor(BINARY, dtype=torch.float64)
    logits = torch.tensor([[0.0, 0.0], [2.0, 0.0], [8.0, 0.0]], dtype=torch.float64)
    options = {"gamma": 2.0, "norm": "l1", "reduction": "none"}
    risks = []
    for row in logits:
        pair, labels = row.expand(2, -1), torch.tensor([0, 1])
        with_distance = losses.focal_calibration_loss(pair, labels, calibration_weight=1e6, **options)
        risks.append((truth * with_distance).sum().item() / 1e6)
    assert risks[0] > risks[1] > risks[2]
