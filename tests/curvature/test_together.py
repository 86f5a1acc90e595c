"""Several columns through the network at once, and one by one where that cannot be done."""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from calibrant.curvature import (
    CurvatureOperator,
    GaussNewtonOperator,
    HessianOperator,
    curvature_sizes,
    hessian_trace,
    operators,
    spectral_density,
)
from rosters_losses import LOSSES

CE = nn.CrossEntropyLoss()
TWICE = [loss for loss in LOSSES if loss.twice_differentiable]
OPERATORS = {"hessian": HessianOperator, "gauss-newton": GaussNewtonOperator}
# Of sums that are taken in another order, in float64.
ROUNDING = {"rtol": 1e-11, "atol": 1e-12}


def one_by_one(operator: CurvatureOperator, columns: Tensor) -> Tensor:
    return torch.stack([operator @ column for column in columns.unbind(1)], dim=1)


def seven(operator: CurvatureOperator) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(operator.size, 7, generator=generator, dtype=torch.float64)


@pytest.fixture
def batched(monkeypatch) -> list[int]:
    """One entry for every time that torch is asked to take several at once."""
    asked: list[int] = []
    vmap = torch.vmap

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        asked.append(1)
        return vmap(function)

    monkeypatch.setattr(torch, "vmap", counting)
    return asked


@pytest.mark.parametrize("matrix", OPERATORS)
@pytest.mark.parametrize("loss", TWICE, ids=[loss.name for loss in TWICE])
def test_columns_together_are_columns_one_by_one(loss, matrix, tiny, samples, batched) -> None:
    """For every loss that has second derivatives, whether or not torch can take several at once.

    One matrix is that of one batch, the other of three; which one changes from loss to loss.
    """
    inputs, labels = samples
    sizes = [40] if (matrix == "hessian") == (TWICE.index(loss) % 2 == 0) else [7, 23, 10]
    if loss.multilabel:
        labels = nn.functional.one_hot(labels, 4)
    data = list(zip(inputs.split(sizes), labels.split(sizes), strict=True))
    operator = OPERATORS[matrix](tiny, loss, data)
    columns = seven(operator)
    together = operator @ columns
    assert batched
    torch.testing.assert_close(together, one_by_one(operator, columns), **ROUNDING)


def test_it_is_done_at_once(tiny, batches, batched) -> None:
    operator = HessianOperator(tiny, CE, batches)
    _ = operator @ torch.ones(operator.size, dtype=torch.float64)
    assert not batched
    _ = operator @ seven(operator)
    _ = operator @ seven(operator)
    assert len(batched) == 6


class _Looking(torch.autograd.Function):
    """The square, whose derivative is made by NumPy."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.save_for_backward(values)
        return values.square()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        return _Doubled.apply(ctx.saved_tensors[0], grad_outputs[0])


class _Doubled(torch.autograd.Function):
    """2 x g, and its derivatives, by NumPy."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(values, weights)
        return torch.from_numpy(2 * np.asarray(values.detach()) * np.asarray(weights.detach()))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor]:
        way = grad_outputs[0].numpy()
        return tuple(torch.from_numpy(2 * way * each.detach().numpy()) for each in ctx.saved_tensors[::-1])


class Squares(nn.Module):
    """Squares, or by a function that torch cannot take along several directions."""

    def __init__(self, *, plain: bool) -> None:
        super().__init__()
        self.plain = plain

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.square() if self.plain else _Looking.apply(inputs)


def squares(*, plain: bool) -> nn.Module:
    """A network with one of these between two layers."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), Squares(plain=plain), nn.Linear(5, 4)).double()


@pytest.mark.parametrize("matrix", OPERATORS)
def test_what_cannot_be_done_at_once_is_tried_once(matrix, batches, batched) -> None:
    """A function of one's own goes one by one, silently, with the right result, and is not tried again."""
    operator = OPERATORS[matrix](squares(plain=False), CE, batches)
    expected = OPERATORS[matrix](squares(plain=True), CE, batches).dense()
    batched.clear()
    found = operator.dense()
    torch.testing.assert_close(found, expected, **ROUNDING)
    _ = operator @ seven(operator)
    assert len(batched) == 1


def test_an_error_of_the_loss_is_still_told(tiny, batches) -> None:
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, values: Tensor) -> Tensor:
            return values.clone()

        @staticmethod
        def backward(_ctx: Any, *grad_outputs: Tensor) -> Tensor:
            passage = grad_outputs[0] * 1

            def refuse(_: Tensor) -> None:
                raise RuntimeError("differentiable once")

            passage.register_hook(refuse)
            return passage

    operator = HessianOperator(tiny, lambda logits, labels: CE(Once.apply(logits), labels), batches)
    with pytest.raises(RuntimeError, match="differentiable once"):
        _ = operator @ seven(operator)


class InPlace(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.mul_(1.5).tanh_()


def _bump(values: Tensor) -> Tensor:
    return values.tanh().square().sum()


class Slopes(nn.Module):
    """Differentiates on the way forward, as a network of forces does."""

    def forward(self, inputs: Tensor) -> Tensor:
        """The slopes of a sum of squares."""
        return torch.autograd.grad(_bump(inputs), inputs, create_graph=True)[0]


class FunctionalSlopes(nn.Module):
    """The same, where torch does not let anyone see what is kept."""

    def forward(self, inputs: Tensor) -> Tensor:
        """The slopes of a sum of squares."""
        return torch.func.grad(_bump)(inputs)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "batch norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4)),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)),
        nn.Conv1d(1, 3, 3),
        nn.Softplus(),
        nn.MaxPool1d(2),
        nn.Flatten(),
        nn.Linear(6, 4),
    ),
    "attention": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 2)),
        nn.TransformerEncoderLayer(2, 1, dim_feedforward=4, batch_first=True),
        nn.Flatten(),
        nn.Linear(6, 4),
    ),
    "in place": lambda: nn.Sequential(nn.Linear(6, 8), InPlace(), nn.Linear(8, 4)),
    "group norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(2, 8), nn.GELU(), nn.Linear(8, 4)),
    "slopes": lambda: nn.Sequential(nn.Linear(6, 8), Slopes(), nn.Linear(8, 4)),
    "slopes by torch.func": lambda: nn.Sequential(nn.Linear(6, 8), FunctionalSlopes(), nn.Linear(8, 4)),
}


@pytest.mark.parametrize(("matrix", "mode"), [("hessian", "train"), ("gauss-newton", "eval")])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, matrix, mode, batches) -> None:
    """Layers whose derivatives torch takes together in its own way, or not: the products are the same."""
    torch.manual_seed(0)
    operator = OPERATORS[matrix](NETWORKS[name]().double(), CE, batches, mode=mode)
    columns = seven(operator)
    torch.testing.assert_close(operator @ columns, one_by_one(operator, columns), **ROUNDING)


def test_a_network_whose_needs_are_not_known_goes_one_by_one(batches) -> None:
    """What is kept inside torch.func cannot be counted: one column at a time, with the same estimates."""
    found: list[list[float]] = []
    blocks: list[int] = []
    for name in ("slopes", "slopes by torch.func"):
        torch.manual_seed(0)
        network = NETWORKS[name]().double()
        blocks.append(HessianOperator(network, CE, batches).block)
        trace = hessian_trace(network, CE, batches, num_matvecs=20)
        sizes = curvature_sizes(network, CE, batches, num_matvecs=10)
        found.append([trace.value, trace.standard_error, sizes.frobenius_norm])
    assert blocks[0] > blocks[1] == 1
    assert found[1] == pytest.approx(found[0], rel=1e-9)


def test_what_was_counted_is_let_go(tiny, samples) -> None:
    """Counting leaves no ring of a graph and its outputs, which would stay for good."""
    outputs: list[weakref.ref[Tensor]] = []

    def remember(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        outputs.append(weakref.ref(output))

    handle = tiny[1].register_forward_hook(remember)
    assert HessianOperator(tiny, CE, [samples]).block > 1
    handle.remove()
    assert [output() for output in outputs] == [None]


def test_memory_decides_how_many(tiny, batches, monkeypatch) -> None:
    """With less room fewer go at a time, one at least; larger batches leave fewer; the result is the same."""
    whole = HessianOperator(tiny, CE, batches)
    expected = whole.dense()
    most = whole.block
    for numbers in (5000, 1000, 1):
        monkeypatch.setattr(operators, "_MOST_NUMBERS", numbers)
        operator = HessianOperator(tiny, CE, batches)
        torch.testing.assert_close(operator.dense(), expected, **ROUNDING)
        assert 1 <= operator.block < most
        most = operator.block
        turned = HessianOperator(tiny, CE, batches[1:])  # 23 samples first, not 7
        assert turned.block < operator.block or operator.block == 1
    assert most == 1


def test_no_columns(tiny, batches) -> None:
    operator = HessianOperator(tiny, CE, batches)
    assert (operator @ torch.zeros(92, 0, dtype=torch.float64)).shape == (92, 0)
    assert operator.num_products == 0


def test_estimates_do_not_depend_on_how_many_go_at_a_time(tiny, samples, monkeypatch) -> None:
    """Trace, sizes and density are, up to rounding, those of single products; each tells what is done."""
    found: list[Any] = []
    told: list[list[tuple[int, int]]] = []
    for numbers in (operators._MOST_NUMBERS, 3000, 1):  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(operators, "_MOST_NUMBERS", numbers)
        seen: list[tuple[int, int]] = []

        def tell(done: int, most: int, seen: list[tuple[int, int]] = seen) -> None:
            seen.append((done, most))

        trace = hessian_trace(tiny, CE, [samples], num_matvecs=20, progress=tell)
        sizes = curvature_sizes(tiny, CE, [samples], num_matvecs=10, progress=tell)
        density = spectral_density(tiny, CE, [samples], num_probes=5, num_steps=8, progress=tell)
        assert {(20, 20), (10, 10), (40, 40)} <= set(seen)
        layers = sum(layer.value for layer in sizes.layer_traces.values())
        found.append([trace.value, trace.standard_error, layers, sizes.frobenius_norm, density.moment(2)])
        told.append(seen)
    assert found[1] == pytest.approx(found[0], rel=1e-9)
    assert found[2] == pytest.approx(found[0], rel=1e-9)
    assert len(told[0]) < len(told[1]) < len(told[2]) == 70
