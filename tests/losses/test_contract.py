"""Every law over the roster of losses; and whom a flag exempts from a law must break it."""

from typing import Any

import pytest

import laws_losses_arguments
import laws_losses_derivatives
from laws_losses import LAWS
from rosters_losses import LOSSES, Loss

assert laws_losses_arguments
assert laws_losses_derivatives  # they enter their laws

pytestmark = [
    # torch says so of itself when forward mode or its compiler is first used.
    pytest.mark.filterwarnings(r"ignore:`torch\.jit\.script(_method)?` is deprecated:DeprecationWarning"),
    # Where a graph is captured in pieces, torch's own look at the tensor between them.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

PAIRS = [(name, loss) for name in LAWS for loss in LOSSES]
BOUND = [(name, loss) for name, loss in PAIRS if LAWS[name].holds_for(loss)]
EXEMPT = [(name, loss) for name, loss in PAIRS if not LAWS[name].holds_for(loss)]
# What a broken law raises: its own assertion, or the refusal of torch, of the loss or of ``pytest.raises``.
BROKEN = (AssertionError, RuntimeError, TypeError, ValueError, IndexError, pytest.fail.Exception)


def case(name: str, loss: Loss) -> Any:
    """A pair as a parameter; capturing is slow, so a quick test does it with one choice of options only."""
    first = next(each for each in LOSSES if each.function is loss.function)
    marks = [pytest.mark.slow] if name == "is_captured" and loss is not first else []
    return pytest.param(name, loss, id=f"{loss.name}-{name}", marks=marks)


@pytest.mark.parametrize(("name", "entry"), [case(*pair) for pair in BOUND])
def test_law(name: str, entry: Loss) -> None:
    LAWS[name].check(entry)


@pytest.mark.parametrize(("name", "entry"), EXEMPT, ids=[f"{loss.name}-{name}" for name, loss in EXEMPT])
def test_an_exemption_is_needed(name: str, entry: Loss) -> None:
    """A loss whose flags exempt it from a law breaks it: a false flag hides nothing."""
    with pytest.raises(BROKEN, match=r"(?s).*"):
        LAWS[name].check(entry)
