"""Nothing public escapes: every loss has its entry in the rosters, and every entry is public."""

import inspect
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from calibrant import losses
from calibrant.losses._module import LossModule, properness
from rosters_losses import LOSSES, Loss

NO_LOSS = {
    "linear_focal_loss": "takes the last layer's weights; tests/losses/test_linear.py",
    "linear_loss": "takes the last layer's weights; tests/losses/test_linear.py",
    "available": "names of losses",
    "build": "makes a loss from text",
    "optimal_gamma": "an exponent; tests/losses/test_optimal_gamma.py",
    "scheduled_gamma": "an exponent; tests/losses/test_scheduled_focal.py",
    "updated_gammas": "exponents; tests/losses/test_adafocal.py",
    "smooth_calibration_penalty": "of confidences, not of logits; tests/losses/test_batch_losses.py",
}
"""Public names that are no losses, and why."""


def missing(public: Mapping[str, object], exempt: Iterable[str]) -> list[str]:
    """What to add for a public name that no roster has."""
    entered = {each for loss in LOSSES for each in (loss.function, loss.module)}
    built = {type(losses.build(name)) for name in losses.available()}
    steps: list[str] = []
    for name, thing in public.items():
        if name in exempt:
            continue
        if thing not in entered:
            steps.append(f"{name}: add a Loss(...) to LOSSES in tests/rosters_losses.py")
        if inspect.isclass(thing) and thing not in built:
            steps.append(f"{name}: make it a LossModule in a file of its own, named as in recipes")
    return steps


def test_every_public_loss_is_entered() -> None:
    """What is in ``__all__`` is in the roster of the laws, modules are also in the grammar of ``build``."""
    public = {name: getattr(losses, name) for name in losses.__all__}
    assert missing(public, NO_LOSS) == []


def test_every_entry_is_public() -> None:
    """What the rosters hold is public, with a function that its module is bound to."""
    public = {getattr(losses, name) for name in losses.__all__}
    for loss in LOSSES:
        assert {loss.function, loss.module} <= public
        assert inspect.unwrap(loss.module.function) is inspect.unwrap(loss.function)
    assert {type(losses.build(name)) for name in losses.available()} <= public
    assert set(NO_LOSS) < set(losses.__all__)
    assert len({loss.name for loss in LOSSES}) == len(LOSSES)


def test_a_new_loss_is_told_what_to_add() -> None:
    """A public loss that no roster knows is named, with the files and what to add to them."""

    class NewLoss(nn.Module): ...

    def new_loss() -> None: ...

    assert missing({"new_loss": new_loss, "NewLoss": NewLoss, "build": losses.build}, NO_LOSS) == [
        "new_loss: add a Loss(...) to LOSSES in tests/rosters_losses.py",
        "NewLoss: add a Loss(...) to LOSSES in tests/rosters_losses.py",
        "NewLoss: make it a LossModule in a file of its own, named as in recipes",
    ]


@pytest.mark.parametrize("name", losses.available())
def test_every_loss_states_whether_it_is_proper(name: str) -> None:
    module = losses.build(name)
    assert isinstance(module.properness, str)
    assert len(module.properness) > 10
    assert isinstance(module.function.properness, str)


def test_function_and_module_have_the_same_defaults(loss: Loss) -> None:
    """Every loss weighs classes alike, leaves out -100 and gives the mean; settings agree as well."""
    common = {"weight": None, "ignore_index": -100, "reduction": "mean"}
    one, other = (
        {name: option.default for name, option in inspect.signature(thing).parameters.items()}
        for thing in (loss.function, loss.module)
    )
    shared = one.keys() & other.keys()
    assert {name: one[name] for name in shared} == {name: other[name] for name in shared}
    assert {name: one[name] for name in shared & common.keys()} == common


def test_a_loss_is_a_function_and_a_thin_class() -> None:
    """A class that names a function and its settings gets signature, value and printed form from them."""

    @properness("strictly proper")
    def scaled_loss(logits: Tensor, labels: Tensor, *, factor: float = 2.0, **options: Any) -> Tensor:
        return factor * losses.cross_entropy_loss(logits, labels, **options)

    class ScaledLoss(LossModule, function=scaled_loss):
        factor: float = 2.0

    logits, labels = torch.eye(3), torch.arange(3)
    module = ScaledLoss(factor=3.0, reduction="sum")
    assert module(logits, labels) == 3 * losses.cross_entropy_loss(logits, labels, reduction="sum")
    assert repr(module) == "ScaledLoss(factor=3.0, reduction='sum')"
    assert [*inspect.signature(ScaledLoss).parameters] == ["factor", "weight", "ignore_index", "reduction"]
    assert module.properness == "strictly proper"
    assert pickle.loads(pickle.dumps(losses.FocalLoss(gamma=1.0))).gamma == 1.0


def test_a_user_s_own_module_may_go_on_from_one() -> None:
    """A subclass with an ``__init__`` of its own is left alone; one with a setting more gets it as well."""

    class Mine(losses.FocalLoss):
        steps: int = 3

        def __init__(self, gamma: float) -> None:
            super().__init__(gamma=gamma, ignore_index=-1)

    class Longer(losses.FocalLoss):
        steps: int = 3

    mine, longer = Mine(1.5), Longer(steps=4)
    assert (mine.gamma, mine.ignore_index, Mine.steps) == (1.5, -1, 3)
    assert (longer.steps, longer.gamma) == (4, 3.0)
    assert mine(torch.eye(3), torch.arange(3)) == losses.focal_loss(torch.eye(3), torch.arange(3), gamma=1.5)
