"""Products with the Hessian and the Gauss-Newton matrix."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import hessian

from calibrant._math.errors import InputError
from calibrant.curvature import GaussNewtonOperator, HessianOperator, operators
from calibrant.losses import BrierLoss, DualFocalLoss, FocalCalibrationLoss, FocalLoss, SampleFocalLoss
from dense_curvature import dense_matrix

LOSSES = {
    "cross-entropy": nn.CrossEntropyLoss(),
    "focal": FocalLoss(gamma=3.0),
    "sample-focal": SampleFocalLoss(),
    "dual-focal": DualFocalLoss(),
    "brier": BrierLoss(),
    "fcl": FocalCalibrationLoss(),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("operator", [HessianOperator, GaussNewtonOperator])
def test_equals_the_dense_matrix(operator, name, tiny, samples, batches) -> None:
    form = "hessian" if operator is HessianOperator else "gauss-newton"
    expected = dense_matrix(tiny, LOSSES[name], samples, form)
    found = operator(tiny, LOSSES[name], batches).dense()
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_stored_products(stored, tiny, batches) -> None:
    for result in stored["results"]:
        dense = HessianOperator(tiny, FocalLoss(gamma=result["gamma"]), batches).dense()
        values = torch.linalg.eigvalsh(dense)
        assert float(dense.trace()) == pytest.approx(result["trace_exact"], rel=1e-10)
        assert float(values[-1]) == pytest.approx(result["lambda_max_exact"], rel=1e-10)
        assert float(values[0]) == pytest.approx(result["lambda_min_exact"], rel=1e-10)


@pytest.mark.parametrize(("memory", "graphs"), [(2**21, 1), (1, 2)])
@pytest.mark.parametrize("parts", [1, 3])
def test_small_batches_are_kept_and_still_right(memory, graphs, parts, tiny, samples, monkeypatch) -> None:
    monkeypatch.setattr(operators, "_MOST_NUMBERS", memory)
    calls = []

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        calls.append(1)
        return nn.functional.cross_entropy(logits, labels)

    data = list(zip(*(each.tensor_split(parts) for each in samples), strict=True))
    operator = HessianOperator(tiny, loss, data)
    vector = torch.linspace(-1, 1, operator.size, dtype=torch.float64)
    first, second = operator @ vector, operator @ vector
    assert len(calls) == (1 if parts == 1 else graphs * parts)
    assert torch.equal(first, second)
    torch.testing.assert_close(
        first, dense_matrix(tiny, nn.CrossEntropyLoss(), samples) @ vector, rtol=1e-10, atol=1e-12
    )


def test_nothing_is_left_on_the_model(samples) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 4)
    ).double()
    model[3].eval()
    before = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    for mode in ("eval", "train"):
        operator = HessianOperator(model, nn.CrossEntropyLoss(), [samples], mode=mode)
        assert bool((operator @ torch.ones(operator.size, dtype=torch.float64)).any())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == modes
    assert all(value.grad is None and value.requires_grad for value in model.parameters())


def test_train_mode_uses_batch_statistics_without_dropout(samples) -> None:
    torch.manual_seed(0)
    bare = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)).double()
    noisy = nn.Sequential(bare[0], bare[1], nn.Dropout(0.9), bare[2]).double()
    loss = nn.CrossEntropyLoss()
    expected = dense_matrix(copy.deepcopy(bare).train(), loss, samples)
    found = HessianOperator(noisy, loss, [samples], mode="train").dense()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    assert not torch.allclose(found, HessianOperator(noisy, loss, [samples]).dense(), atol=1e-3)


def test_parameters_by_name(tiny, samples) -> None:
    whole = dense_matrix(tiny, nn.CrossEntropyLoss(), samples)
    block = HessianOperator(tiny, nn.CrossEntropyLoss(), [samples], parameters="2").dense()
    torch.testing.assert_close(block, whole[56:, 56:], rtol=1e-10, atol=1e-12)
    bias = HessianOperator(tiny, nn.CrossEntropyLoss(), [samples], parameters=["0.bias"]).dense()
    torch.testing.assert_close(bias, whole[48:56, 48:56], rtol=1e-10, atol=1e-12)


def test_frozen_and_shared_parameters(samples) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 6, bias=False)
            self.second = nn.Linear(6, 6, bias=False)
            self.second.weight = self.first.weight
            self.head = nn.Linear(6, 4)
            self.head.bias.requires_grad_(False)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(torch.tanh(self.second(torch.tanh(self.first(inputs)))))

    torch.manual_seed(0)
    model = Tied().double()
    operator = HessianOperator(model, nn.CrossEntropyLoss(), [samples])
    assert operator.size == 36 + 24

    def naive(vector: Tensor) -> Tensor:
        shared, head = vector[:36].view(6, 6), vector[36:].view(4, 6)
        hidden = torch.tanh(torch.tanh(samples[0] @ shared.T) @ shared.T)
        return nn.functional.cross_entropy(hidden @ head.T + model.head.bias, samples[1])

    flat = torch.cat([model.first.weight.detach().reshape(-1), model.head.weight.detach().reshape(-1)])
    torch.testing.assert_close(operator.dense(), hessian(naive, flat), rtol=1e-10, atol=1e-12)


def test_attention_in_evaluation_mode() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=8, batch_first=True, dropout=0.1)
    model = nn.Sequential(layer, nn.Flatten(), nn.Linear(24, 3)).double()
    data = [(torch.randn(5, 3, 8).double(), torch.tensor([0, 1, 2, 0, 1]))]
    operator = HessianOperator(model, nn.CrossEntropyLoss(), data)
    left, right = torch.randn(2, operator.size, dtype=torch.float64)
    assert float(left @ (operator @ right)) == pytest.approx(float(right @ (operator @ left)), rel=1e-9)
    assert float((operator @ right).norm()) > 0


def test_inputs_by_name_and_output_objects() -> None:
    """Batches may be mappings of arguments, and the model may return something with ``.logits``."""

    class Output:
        def __init__(self, logits: Tensor) -> None:
            self.logits = logits

    class Model(nn.Linear):
        def forward(self, *, values: Tensor) -> Any:
            return Output(super().forward(values))

    model = Model(3, 2).double()
    values, labels = torch.randn(4, 3).double(), torch.tensor([0, 1, 1, 0])
    found = HessianOperator(model, nn.CrossEntropyLoss(), [({"values": values}, labels)]).dense()
    plain = nn.Linear(3, 2).double()
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(
        found, HessianOperator(plain, nn.CrossEntropyLoss(), [(values, labels)]).dense()
    )


@pytest.mark.parametrize("gamma", [1.2, 1.5, 1.8, 0.5])
def test_finite_at_saturation(gamma) -> None:
    """γ in (0, 2) at logits of 1e4 gives finite products, though (1 - p)^(γ - 2) alone would not be."""
    model = nn.Linear(1, 3, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1e4], [0.0], [-1e4]]))
    data = [(torch.ones(3, 1), torch.tensor([0, 1, 2]))]
    dense = HessianOperator(model, FocalLoss(gamma=gamma), data).dense()
    assert bool(torch.isfinite(dense).all())


def test_scipy_operator(tiny, batches) -> None:
    from scipy.sparse.linalg import eigsh

    operator = HessianOperator(tiny, nn.CrossEntropyLoss(), batches)
    found = eigsh(operator.to_scipy(), k=1, which="LA", return_eigenvectors=False)
    assert found[0] == pytest.approx(float(torch.linalg.eigvalsh(operator.dense())[-1]), rel=1e-8)


def test_linear_loss_has_no_curvature(samples) -> None:
    model = nn.Linear(6, 4).double()
    found = HessianOperator(model, lambda logits, _: logits.mean(), [samples])
    assert not bool(found.dense().any())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"parameters": "nothing"},
            r"`parameters` must name parameters of the model that are trained; got 'nothing'",
        ),
        ({"parameters": ()}, "`parameters` must name at least one"),
        ({"mode": "test"}, "`mode` must be one of"),
    ],
)
def test_bad_arguments(change, message, tiny, batches) -> None:
    with pytest.raises(InputError, match=message):
        HessianOperator(tiny, nn.CrossEntropyLoss(), batches, **change)


def test_bad_data_and_losses(tiny, batches) -> None:
    """An iterator, no batches, a bare batch, a loss per sample and a vector of another length are refused."""
    with pytest.raises(InputError, match="`data` must be iterable many times"):
        HessianOperator(tiny, nn.CrossEntropyLoss(), iter(batches))
    ones = torch.ones(92, dtype=torch.float64)
    with pytest.raises(InputError, match="`data` must hold at least one batch"):
        _ = HessianOperator(tiny, nn.CrossEntropyLoss(), []) @ ones
    for data in (batches[0], [batches[0][0]], [{"inputs": batches[0][0], "labels": batches[0][1]}]):
        with pytest.raises(
            InputError, match=r"`data` must give batches.* is passed as \[\(inputs, labels\)\]"
        ):
            _ = HessianOperator(tiny, nn.CrossEntropyLoss(), data) @ ones
    with pytest.raises(InputError, match="`loss` must return a tensor with a gradient; got float"):
        _ = HessianOperator(tiny, lambda *_: 1.0, batches) @ ones
    with pytest.raises(InputError, match="`loss` must return the mean of a batch"):
        _ = HessianOperator(tiny, nn.CrossEntropyLoss(reduction="none"), batches) @ ones
    with pytest.raises(InputError, match=r"`vectors` must have shape \(92,\)"):
        _ = HessianOperator(tiny, nn.CrossEntropyLoss(), batches) @ ones[:5]
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(InputError, match="all are frozen"):
        HessianOperator(frozen, nn.CrossEntropyLoss(), batches)


def test_layers_that_drop_by_themselves_do_not(samples) -> None:
    """Attention and recurrent layers, whose dropout is no module of its own, add no noise in training."""

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.GRU(2, 3, num_layers=2, dropout=0.5, batch_first=True)
            self.head = nn.Linear(9, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(self.layers(inputs.view(-1, 3, 2))[0].flatten(1))

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(2, 1, dim_feedforward=4, batch_first=True, dropout=0.5)
    attention = nn.Sequential(nn.Unflatten(1, (3, 2)), layer, nn.Flatten(), nn.Linear(6, 4))
    for model in (attention.double(), Recurrent().double()):
        found = [HessianOperator(model, nn.CrossEntropyLoss(), [samples], mode="train") for _ in range(2)]
        ones = torch.ones(found[0].size, dtype=torch.float64)
        assert torch.equal(found[0] @ ones, found[1] @ ones)


NORMS = {
    "affine": lambda: nn.BatchNorm1d(3, eps=0.1),
    "without weights": lambda: nn.BatchNorm1d(3, affine=False),
    "without running statistics": lambda: nn.BatchNorm1d(3, track_running_stats=False),
}


@pytest.mark.parametrize("length", [None, 5], ids=["flat", "with a length"])
@pytest.mark.parametrize("name", NORMS)
def test_batch_normalisation_in_evaluation_mode(name, length, samples) -> None:
    """By running statistics, or where there are none by the batch's: the Hessian of what torch computes."""
    torch.manual_seed(0)
    shape = nn.Unflatten(1, (1, 6)) if length else nn.Identity()
    layer = nn.Conv1d(1, 3, 2) if length else nn.Linear(6, 3)
    model = nn.Sequential(
        shape, layer, NORMS[name](), nn.Tanh(), nn.Flatten(), nn.Linear(3 * (length or 1), 4)
    )
    model = model.double()
    model(3 * samples[0] + 1)  # the running statistics move
    loss = nn.CrossEntropyLoss()
    expected = dense_matrix(copy.deepcopy(model).eval(), loss, samples)
    torch.testing.assert_close(
        HessianOperator(model, loss, [samples]).dense(), expected, rtol=1e-9, atol=1e-11
    )


def test_batch_normalisation_of_another_type(samples) -> None:
    """Half-precision inputs to norms in float32 keep their type, as in torch."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Linear(3, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.norm(self.first(inputs).bfloat16())
            assert hidden.dtype == torch.bfloat16
            return self.last(hidden.float())

    operator = HessianOperator(Mixed(), nn.CrossEntropyLoss(), [(samples[0].float(), samples[1])])
    assert bool(torch.isfinite(operator @ torch.ones(operator.size)).all())
