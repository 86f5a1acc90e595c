"""The regularised loss in a training loop: what it leaves alone, what it refuses, when it penalises."""

import copy
import gc
import io
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from calibrant._math.errors import InputError
from calibrant.curvature import CurvatureRegularizer, penalties
from calibrant.losses import MMCELoss

CE = nn.CrossEntropyLoss()
ESTIMATORS = ("hutchinson", "gauss-newton", "last-layer")


@pytest.fixture
def model() -> nn.Module:
    """Batch normalisation, dropout, and a frozen parameter."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 4))
    net[0].bias.requires_grad_(False)
    return net.double()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_nothing_is_left_on_the_model(estimator, model, samples) -> None:
    """Without ``backward`` no gradient; mode and parameters stay; the network can be copied and saved."""
    before = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    criterion = CurvatureRegularizer(model, CE, weight=0.1, estimator=estimator)
    assert not list(criterion.parameters())
    assert list(criterion.state_dict()) == ["_extra_state"]
    total = criterion(model(samples[0]), samples[1])
    assert all(value.grad is None for value in model.parameters())
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())
    copied = copy.deepcopy(model)
    torch.save(model, io.BytesIO())
    total.backward()
    assert model[0].bias.grad is None
    assert all(value.grad is not None for value in model.parameters() if value.requires_grad)
    assert all(value.grad is None for value in copied.parameters())
    del criterion, total
    gc.collect()
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_pass_through_the_network(estimator, model, samples) -> None:
    """The network runs once: running statistics and random numbers are those of the loss alone."""
    plain = copy.deepcopy(model)
    criterion = CurvatureRegularizer(model, CE, weight=0.1, estimator=estimator)
    torch.manual_seed(7)
    found = criterion.penalised(model(samples[0]), samples[1])
    found.total.backward()
    state = torch.get_rng_state()
    torch.manual_seed(7)
    loss = CE(plain(samples[0]), samples[1])
    loss.backward()
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(found.loss, loss)
    for mine, theirs in zip(model.buffers(), plain.buffers(), strict=True):
        assert torch.equal(mine, theirs)
    assert not torch.equal(model[4].weight.grad, plain[4].weight.grad)


def test_weight_zero_is_the_loss(model, samples) -> None:
    """With weight 0 value and gradient are those of the loss, to the bit, and no trace is taken."""
    model.eval()
    criterion = CurvatureRegularizer(model, CE, weight=0.0)
    found = criterion.penalised(model(samples[0]), samples[1])
    assert found.trace is None
    found.total.backward()
    mine = [value.grad.clone() for value in model.parameters() if value.grad is not None]
    model.zero_grad()
    CE(model(samples[0]), samples[1]).backward()
    theirs = [value.grad for value in model.parameters() if value.grad is not None]
    assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))


def test_every_k_th_batch_k_times(model, samples) -> None:
    model.eval()
    criterion = CurvatureRegularizer(model, CE, weight=0.5, every=3, estimator="last-layer")
    found = [criterion.penalised(model(samples[0]), samples[1]) for _ in range(7)]
    assert [each.trace is not None for each in found] == [True, False, False] * 2 + [True]
    first = found[0]
    assert first.trace is not None
    torch.testing.assert_close(first.total, first.loss + 1.5 * first.trace)
    assert all(torch.equal(each.total, each.loss) for each in found if each.trace is None)


def test_going_on_draws_the_same(model, samples) -> None:
    """``state_dict`` goes on where it was; a seed decides the vectors; torch's generator is left alone."""
    model.eval()
    logits = model(samples[0])

    def traces(criterion: CurvatureRegularizer, count: int) -> list[float]:
        found = [criterion.penalised(logits, samples[1]).trace for _ in range(count)]
        return [math.nan if trace is None else trace.item() for trace in found]

    state = torch.get_rng_state()
    whole = traces(CurvatureRegularizer(model, CE, weight=1.0, seed=4), 5)
    first = CurvatureRegularizer(model, CE, weight=1.0, seed=4)
    assert traces(first, 2) == whole[:2]
    second = CurvatureRegularizer(model, CE, weight=1.0, seed=4)
    second.load_state_dict(first.state_dict())
    assert traces(second, 3) == whole[2:]
    assert torch.equal(state, torch.get_rng_state())
    assert len(set(whole)) == 5
    assert traces(CurvatureRegularizer(model, CE, weight=1.0, seed=5), 1) != whole[:1]


def test_evaluation_is_the_loss_alone(model, samples) -> None:
    """In evaluation mode, and without a graph, the loss alone is returned and no batch counted."""
    criterion = CurvatureRegularizer(model.eval(), CE, weight=1.0, estimator="last-layer")
    with torch.no_grad():
        without = criterion(model(samples[0]), samples[1])
    criterion.eval()
    quiet = criterion(model(samples[0]), samples[1])
    assert without.item() == quiet.item() == CE(model(samples[0]), samples[1]).item()
    assert criterion.calls == 0


def test_negative_traces(samples) -> None:
    """A concave loss has a negative trace: kept, it lowers the objective; clipped, it changes nothing."""

    def concave(logits: Tensor, _: Tensor) -> Tensor:
        return -logits.square().mean()

    model = nn.Linear(6, 4).double()  # whose own bend adds nothing
    for estimator in ESTIMATORS:
        kept = CurvatureRegularizer(model, concave, weight=1.0, estimator=estimator)
        found = kept.penalised(model(samples[0]), samples[1])
        assert found.trace is not None
        assert found.trace < 0
        torch.testing.assert_close(found.total, found.loss + found.trace)
        clipped = CurvatureRegularizer(model, concave, weight=1.0, estimator=estimator, negative="clip")
        clipped(model(samples[0]), samples[1]).backward()
        mine = model.weight.grad.clone()
        model.zero_grad()
        concave(model(samples[0]), samples[1]).backward()
        torch.testing.assert_close(mine, model.weight.grad, rtol=1e-12, atol=1e-14)
        model.zero_grad()


def test_attention_needs_its_plain_kernel() -> None:
    """Fused attention is refused with the remedy; inside it all is well, and the last layer needs none."""
    torch.manual_seed(0)

    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.Linear(8, 8), nn.Linear(24, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.inner(inputs).unsqueeze(1)
            mixed = nn.functional.scaled_dot_product_attention(hidden, hidden, hidden)
            return self.head(mixed.flatten(1))

    model = Attends()
    inputs, labels = torch.randn(5, 3, 8), torch.tensor([0, 1, 2, 0, 1])
    criterion = CurvatureRegularizer(model, CE, weight=1.0)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        logits = model(inputs)
    with pytest.raises(
        InputError, match=r"differentiates more often than something here allows.*sdpa_kernel"
    ):
        criterion(logits, labels)
    with sdpa_kernel(SDPBackend.MATH):
        criterion(model(inputs), labels).backward()
    assert model.inner.weight.grad is not None
    last = CurvatureRegularizer(model, CE, weight=1.0, estimator="last-layer")
    last(model(inputs), labels).backward()


def test_losses_of_a_whole_batch(model, samples) -> None:
    """The closed form refuses a loss that joins samples; the others take it."""
    for estimator in ("hutchinson", "gauss-newton"):
        total = CurvatureRegularizer(model, MMCELoss(), weight=0.1, estimator=estimator)
        assert bool(torch.isfinite(total(model(samples[0]), samples[1])))
    last = CurvatureRegularizer(model, MMCELoss(), weight=0.1, estimator="last-layer")
    with pytest.raises(InputError, match="is for losses in which every sample counts by itself"):
        last(model(samples[0]), samples[1])


def test_nothing_to_differentiate_is_zero(samples) -> None:
    """A loss that is linear in the logits of a linear network has a trace of zero, by every estimator."""
    model = nn.Linear(6, 4).double()
    for estimator in ESTIMATORS:
        criterion = CurvatureRegularizer(model, lambda z, _: z.mean(), weight=1.0, estimator=estimator)
        found = criterion.penalised(model(samples[0]), samples[1])
        assert found.trace == 0
        found.total.backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_other_types(estimator, dtype, tiny, samples, monkeypatch) -> None:
    """float32 agrees with float64 to 1e-4, bfloat16 to a tenth: third derivatives lose digits."""
    monkeypatch.setattr(penalties, "ROOT_COST", 0)  # how two vectors are balanced depends on the type

    def gradient(kind: torch.dtype) -> tuple[float, Tensor]:
        model = copy.deepcopy(tiny).to(kind)
        criterion = CurvatureRegularizer(model, CE, weight=1.0, estimator=estimator)
        found = criterion.penalised(model(samples[0].to(kind)), samples[1])
        found.total.backward()
        assert found.total.dtype == kind
        return found.total.item(), model[0].weight.grad.double()

    value, slope = gradient(dtype)
    exact, exact_slope = gradient(torch.float64)
    allowed = 1e-4 if dtype == torch.float32 else 0.1
    assert value == pytest.approx(exact, rel=allowed)
    assert float((slope - exact_slope).norm() / exact_slope.norm()) < allowed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": -1.0}, "`weight` must be finite and not negative"),
        ({"weight": math.inf}, "`weight` must be finite and not negative"),
        ({"estimator": "exact"}, "`estimator` must be one of"),
        ({"negative": "drop"}, "`negative` must be one of"),
        ({"every": 0}, "`every` must be at least 1"),
        ({"num_probes": 0}, "`num_probes` must be at least 1"),
        ({"parameters": "5"}, "`parameters` must name parameters of the model that are trained"),
        ({"parameters": ()}, "`parameters` must name at least one"),
        ({"estimator": "last-layer", "parameters": "0.weight"}, "needs one torch.nn.Linear"),
        ({"estimator": "last-layer", "parameters": ["0", "4"]}, "needs one torch.nn.Linear"),
    ],
)
def test_bad_arguments(change, message, model) -> None:
    with pytest.raises(InputError, match=message):
        CurvatureRegularizer(model, CE, **{"weight": 1.0, **change})


def test_bad_logits(model, samples) -> None:
    inputs, labels = samples
    other = copy.deepcopy(model)
    with pytest.raises(InputError, match="`logits` must come from the `model`"):
        CurvatureRegularizer(model, CE, weight=1.0)(other(inputs), labels)
    last = CurvatureRegularizer(model, CE, weight=1.0, estimator="last-layer")
    with pytest.raises(InputError, match="the layer '4' did not give these logits"):
        last(2 * model(inputs), labels)
    each = CurvatureRegularizer(model, nn.CrossEntropyLoss(reduction="none"), weight=1.0)
    with pytest.raises(InputError, match="`loss` must return the mean of a batch"):
        each(model(inputs), labels)
    with pytest.raises(InputError, match=r"needs one torch.nn.Linear.*a model without any"):
        CurvatureRegularizer(nn.Conv1d(2, 2, 1), CE, weight=1.0, estimator="last-layer")
    model[4].requires_grad_(False)
    with pytest.raises(InputError, match="'4' is frozen"):
        CurvatureRegularizer(model, CE, weight=1.0, estimator="last-layer")
