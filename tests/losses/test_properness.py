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
