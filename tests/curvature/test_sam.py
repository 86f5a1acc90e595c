"""Sharpness-aware minimisation against its formula, and against the optimiser alone."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from calibrant._math.errors import InputError
from calibrant.curvature import SAM

CE = nn.CrossEntropyLoss()
OPTIMISERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    "sgd": lambda m: SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "adamw": lambda m: AdamW(m.parameters(), lr=0.01),
}


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.4), nn.Tanh(), nn.Linear(8, 4))


def test_step_is_the_formula(tiny, samples) -> None:
    """Three steps of plain gradient descent along the gradient at w + rho g / |g|, each computed anew."""
    inputs, labels = samples
    shapes = [value.shape for value in tiny.parameters()]

    def slope(flat: Tensor) -> Tensor:
        leaf = flat.clone().requires_grad_()
        pieces = leaf.split([shape.numel() for shape in shapes])
        first, bias, second, shift = (p.view(s) for p, s in zip(pieces, shapes, strict=True))
        hidden = torch.tanh(inputs @ first.T + bias)
        CE(hidden @ second.T + shift, labels).backward()
        assert leaf.grad is not None
        return leaf.grad

    flat = nn.utils.parameters_to_vector(tiny.parameters()).detach()
    sam = SAM(tiny, SGD(tiny.parameters(), lr=0.5), rho=0.2)
    for _ in range(3):
        here = slope(flat)
        flat = flat - 0.5 * slope(flat + 0.2 * here / here.norm())
        before = CE(tiny(inputs), labels)
        assert torch.equal(sam.step(lambda: CE(tiny(inputs), labels)), before.detach())
        found = nn.utils.parameters_to_vector(tiny.parameters())
        torch.testing.assert_close(found.detach(), flat, rtol=1e-12, atol=1e-14)
    assert all(value.grad is None for value in tiny.parameters())


@pytest.mark.parametrize("name", OPTIMISERS)
def test_no_radius_is_the_optimiser_alone(name, model, samples) -> None:
    """With rho = 0 weights, running statistics and random numbers stay those of the optimiser, to the bit."""
    inputs, labels = samples[0].float(), samples[1]
    other = copy.deepcopy(model)
    sam, plain = SAM(model, OPTIMISERS[name](model), rho=0.0), OPTIMISERS[name](other)
    torch.manual_seed(3)
    for _ in range(4):
        sam.step(lambda: CE(model(inputs), labels))
    state = torch.get_rng_state()
    torch.manual_seed(3)
    for _ in range(4):
        plain.zero_grad()
        CE(other(inputs), labels).backward()
        plain.step()
    assert torch.equal(state, torch.get_rng_state())
    mine, theirs = model.state_dict(), other.state_dict()
    assert all(torch.equal(value, theirs[key]) for key, value in mine.items())
    assert int(mine["1.num_batches_tracked"]) == 4


def test_running_statistics_see_one_pass(model, samples) -> None:
    """With a radius, running statistics are those of a single pass at the old weights."""
    inputs, labels = samples[0].float(), samples[1]
    other = copy.deepcopy(model)
    sam = SAM(model, SGD(model.parameters(), lr=0.1), rho=0.5)
    sam.step(lambda: CE(model(inputs), labels))
    other(inputs)
    for mine, theirs in zip(model.buffers(), other.buffers(), strict=True):
        assert torch.equal(mine, theirs)
    assert not torch.equal(model[4].weight, other[4].weight)


def test_where_nothing_climbs(samples) -> None:
    model = nn.ModuleDict({"used": nn.Linear(6, 4), "unused": nn.Linear(2, 2)}).double()
    before = copy.deepcopy(model.state_dict())
    sam = SAM(model, SGD(model.parameters(), lr=0.1), rho=0.1)
    sam.step(lambda: 0 * model["used"](samples[0]).sum())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_an_error_on_the_way_leaves_the_weights(model, samples) -> None:
    inputs, labels = samples[0].float(), samples[1]
    before = [value.detach().clone() for value in model.parameters()]
    sam = SAM(model, SGD(model.parameters(), lr=0.1), rho=0.5)
    passes: list[int] = []

    def loss() -> Tensor:
        passes.append(1)
        found = CE(model(inputs), labels)
        if len(passes) == 2:
            raise RuntimeError("out of luck")
        return found

    with pytest.raises(RuntimeError, match="out of luck"):
        sam.step(loss)
    assert all(torch.equal(value, old) for value, old in zip(model.parameters(), before, strict=True))
    assert int(model[1].num_batches_tracked) == 1


@pytest.mark.parametrize("rho", [-0.1, float("inf"), float("nan")])
def test_bad_radius(rho, model) -> None:
    with pytest.raises(InputError, match="`rho` must be finite and not negative"):
        SAM(model, SGD(model.parameters(), lr=0.1), rho=rho)
