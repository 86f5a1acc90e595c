"""Compiled and recorded losses, beyond the laws."""

import pytest
import torch

from calibrant import losses
from laws_losses_derivatives import compiles
from rosters_losses import LOSSES, Loss

pytestmark = [
    # torch says so of itself when its compiler is first used.
    pytest.mark.filterwarnings(r"ignore:`torch\.jit\.script(_method)?` is deprecated:DeprecationWarning"),
    # Where a graph is captured in pieces, torch's own look at the tensor between them.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]


def test_a_recorded_graph_depends_on_its_input() -> None:
    """What make_fx records of a focal loss is computed from other logits as from the first."""
    from torch.fx.experimental.proxy_tensor import make_fx

    labels = torch.tensor([0, 2, 1])
    first, other = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0))
    recorded = make_fx(lambda z: losses.focal_loss(z, labels, gamma=2.0))(first)
    torch.testing.assert_close(recorded(other), losses.focal_loss(other, labels, gamma=2.0))
    far = 200 * other  # some probabilities vanish
    torch.testing.assert_close(recorded(far), losses.focal_loss(far, labels, gamma=2.0))


# The laws capture every entry; what is made of the graph is asked of each function, not of each exponent.
FUNCTIONS = {loss.function: loss for loss in reversed(LOSSES)}


@pytest.mark.slow
@pytest.mark.parametrize("entry", [pytest.param(loss, id=loss.name) for loss in FUNCTIONS.values()])
def test_compile(entry: Loss) -> None:
    compiles(entry, backend="inductor")
