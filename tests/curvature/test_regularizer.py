"""Estimates of the trace: what they expect, and their gradients, against dense matrices."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from calibrant.curvature import CurvatureRegularizer, HessianOperator, penalties
from calibrant.curvature.penalties import signed_roots
from calibrant.losses import FocalLoss
from dense_curvature import dense_matrix, flat_logits
from rosters_losses import LOSSES

TWICE_DIFFERENTIABLE = {loss.name: loss for loss in LOSSES if loss.twice_differentiable}
SAMPLES = 5
CE = nn.CrossEntropyLoss()
FORMS = {"hutchinson": "hessian", "gauss-newton": "gauss-newton"}


@pytest.fixture
def small() -> nn.Module:
    """Linear(2, 2), tanh, Linear(2, 3) in float64."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 3)).double()


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs = 2 * torch.randn(SAMPLES, 2, generator=generator, dtype=torch.float64)
    return inputs, torch.tensor([0, 2, 1, 1, 0])


def _labels(entry: Any, labels: Tensor) -> Tensor:
    return nn.functional.one_hot(labels, 3) if entry.multilabel else labels


def _dense_trace(
    model: nn.Module, loss: Any, data: tuple[Tensor, Tensor], form: str
) -> tuple[Tensor, Tensor]:
    """Trace of the dense Hessian or Gauss-Newton matrix, and its gradient by the flat parameters."""
    vector = flat_logits(model)[0].requires_grad_()
    trace = dense_matrix(model, loss, data, form, at=vector).trace()
    return trace.detach(), torch.autograd.grad(trace, vector)[0]


def _expected(
    monkeypatch: pytest.MonkeyPatch,
    criterion: CurvatureRegularizer,
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    size: int,
) -> tuple[Tensor, Tensor]:
    """The estimator's expectation: of a quadratic form, the sum over unit vectors for random signs."""
    values = [value for value in model.parameters() if value.requires_grad]
    total, slope = torch.zeros((), dtype=torch.float64), torch.zeros(sum(v.numel() for v in values)).double()
    for place in range(size):
        unit = torch.zeros(size, dtype=torch.float64)
        unit[place] = 1
        left = [unit]

        def pieces(like: Tensor, _: torch.Generator, left: list[Tensor] = left) -> Tensor:
            piece, left[0] = left[0][: like.numel()], left[0][like.numel() :]
            return piece.reshape(like.shape)

        monkeypatch.setattr(penalties, "random_signs", pieces)
        trace = criterion.penalised(model(data[0]), data[1]).trace
        assert trace is not None
        total = total + trace.detach()
        found = torch.autograd.grad(trace, values, allow_unused=True, materialize_grads=True)
        slope = slope + torch.cat([piece.reshape(-1) for piece in found])
    return total, slope


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        *(("gauss-newton", name) for name in TWICE_DIFFERENTIABLE),
        # of the loss this takes no more than a gradient that can be differentiated
        *(("hutchinson", name) for name in [*TWICE_DIFFERENTIABLE][::4]),
    ],
)
def test_expectation_is_the_dense_trace(estimator, name, small, data, monkeypatch) -> None:
    """For twice differentiable losses value and gradient of the expectation are the dense ones.

    The Gauss-Newton matrix's are those with one vector and with two, whatever they cost.
    """
    loss = TWICE_DIFFERENTIABLE[name]
    mine = data[0], _labels(loss, data[1])
    exact, exact_slope = _dense_trace(small, loss, mine, FORMS[estimator])
    for cost in (0, 10**9) if estimator == "gauss-newton" else (0,):
        monkeypatch.setattr(penalties, "ROOT_COST", cost)
        criterion = CurvatureRegularizer(small, loss, weight=1.0, estimator=estimator)
        size = 15 if estimator == "hutchinson" else 3 * SAMPLES
        value, slope = _expected(monkeypatch, criterion, small, mine, size)
        torch.testing.assert_close(value, exact, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(slope, exact_slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", [name for name, loss in TWICE_DIFFERENTIABLE.items() if not loss.batch])
def test_last_layer_is_the_dense_block(name, small, data) -> None:
    """For every loss of single samples: the trace of the last layer's block, and its gradient."""
    loss = TWICE_DIFFERENTIABLE[name]
    mine = data[0], _labels(loss, data[1])
    vector = flat_logits(small)[0].requires_grad_()
    exact = dense_matrix(small, loss, mine, at=vector)[6:, 6:].trace()
    (slope,) = torch.autograd.grad(exact, vector)
    criterion = CurvatureRegularizer(small, loss, weight=1.0, estimator="last-layer")
    trace = criterion.penalised(small(mine[0]), mine[1]).trace
    torch.testing.assert_close(trace, exact.detach(), rtol=1e-9, atol=1e-11)
    found = torch.autograd.grad(trace, list(small.parameters()))
    torch.testing.assert_close(torch.cat([f.reshape(-1) for f in found]), slope, rtol=1e-7, atol=1e-9)


def test_signs_are_fair_and_independent() -> None:
    """Ones of either sign, as often, whatever stands beside or came before them: all |z| < 4."""
    generator = torch.Generator().manual_seed(3)
    like = torch.empty(21, dtype=torch.float64)
    signs = torch.stack([penalties.random_signs(like, generator) for _ in range(400)])
    assert torch.equal(signs.abs(), torch.ones_like(signs))
    for each in (signs, signs[:, 1:] * signs[:, :-1], signs[1:] * signs[:-1]):
        assert abs(float(each.mean())) * each.numel() ** 0.5 < 4
        assert float((each.mean(0).abs() * len(each) ** 0.5).max()) < 4


@pytest.mark.parametrize("form", ["hutchinson", "gauss-newton", "last-layer"])
def test_gradient_by_finite_differences(form, small, data, monkeypatch) -> None:
    monkeypatch.setattr(penalties, "ROOT_COST", 0)  # what balances two vectors is not differentiated
    loss = FocalLoss(gamma=1.5)
    criterion = CurvatureRegularizer(small, loss, weight=0.3, estimator=form, num_probes=2)

    def objective() -> Tensor:
        criterion.calls = 0
        return criterion(small(data[0]), data[1])

    objective().backward()
    step = 1e-5
    for value in small.parameters():
        assert value.grad is not None
        flat = value.data.view(-1)
        for place in (0, len(flat) - 1):
            kept = flat[place].item()
            flat[place] = kept + step
            above = objective().item()
            flat[place] = kept - step
            below = objective().item()
            flat[place] = kept
            assert value.grad.view(-1)[place].item() == pytest.approx((above - below) / (2 * step), abs=5e-6)


def test_costly_roots_are_not_taken(monkeypatch) -> None:
    """With 40 logits and 120 parameters no root is taken, with 2 logits and 512 parameters one is."""
    taken: list[int] = []
    root = penalties.signed_roots

    def noted(blocks: Tensor) -> tuple[Tensor, Tensor | None]:
        taken.append(blocks.shape[-1])
        return root(blocks)

    monkeypatch.setattr(penalties, "signed_roots", noted)
    for width, classes in ((2, 40), (255, 2)):
        model = nn.Linear(width, classes)
        criterion = CurvatureRegularizer(model, CE, weight=1.0, estimator="gauss-newton")
        criterion(model(torch.randn(3, width)), torch.tensor([0, 1, 1]))
    assert taken == [2]


def test_two_balanced_vectors_spread_little(data) -> None:
    """Beside a hundred samples without curvature two vectors spread less than twice as much as one."""
    torch.manual_seed(0)
    labels = torch.cat([data[1], torch.zeros(100, dtype=torch.int64)])
    inputs = torch.cat([data[0], 30 * torch.ones(100, 2).double()])
    model = nn.Linear(2, 3).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 1.0], [0.2, -0.5], [-0.5, 0.3]]))
    spreads = []
    for cost in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(penalties, "ROOT_COST", cost)
            criterion = CurvatureRegularizer(model, CE, weight=1.0, estimator="gauss-newton")
            found = [criterion.penalised(model(inputs), labels).trace for _ in range(100)]
        spreads.append(float(torch.stack([trace.detach() for trace in found if trace is not None]).std()))
    assert spreads[1] < 2 * spreads[0]


@pytest.mark.parametrize("cost", [0, 10**9])
def test_positions(cost, monkeypatch) -> None:
    monkeypatch.setattr(penalties, "ROOT_COST", cost)
    torch.manual_seed(0)
    places = nn.Conv1d(2, 3, 1).double()
    inputs, labels = torch.randn(2, 2, 4).double(), torch.randint(3, (2, 4))
    odds = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)).double()
    event = nn.BCEWithLogitsLoss()
    for model, loss, data, size in (
        (places, CE, (inputs, labels), 24),
        (odds, event, (torch.randn(3, 2).double(), torch.tensor([0.0, 1.0, 1.0]).double()), 3),
    ):
        criterion = CurvatureRegularizer(model, loss, weight=1.0, estimator="gauss-newton")
        value, _ = _expected(monkeypatch, criterion, model, data, size)
        exact, _ = _dense_trace(model, loss, data, "gauss-newton")
        torch.testing.assert_close(value, exact, rtol=1e-9, atol=1e-11)


def test_batch_statistics(data, monkeypatch) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 3)).double()
    exact = HessianOperator(model, CE, [data], mode="train").dense().trace()
    criterion = CurvatureRegularizer(model, CE, weight=1.0)
    value, _ = _expected(monkeypatch, criterion, model, data, 27)
    torch.testing.assert_close(value, exact, rtol=1e-9, atol=1e-11)


def test_chosen_frozen_and_shared_parameters(small, data, monkeypatch) -> None:
    """Frozen parameters are left out, named ones are their own block, tied ones count once with all uses."""
    whole = HessianOperator(small, CE, [data]).dense()
    small[0].requires_grad_(False)
    value, _ = _expected(monkeypatch, CurvatureRegularizer(small, CE, weight=1.0), small, data, 9)
    torch.testing.assert_close(value, whole[6:, 6:].trace(), rtol=1e-9, atol=1e-11)
    small[0].requires_grad_(True)
    chosen = CurvatureRegularizer(small, CE, weight=1.0, parameters="0.bias")
    value, _ = _expected(monkeypatch, chosen, small, data, 2)
    torch.testing.assert_close(value, whole[4:6, 4:6].trace(), rtol=1e-9, atol=1e-11)
    tied = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Tanh(), nn.Linear(2, 2, bias=False)).double()
    tied[2].weight = tied[0].weight
    mine = data[0], data[1].clamp(max=1)
    for estimator, size in (("hutchinson", 4), ("gauss-newton", 10)):
        criterion = CurvatureRegularizer(tied, CE, weight=1.0, estimator=estimator)
        value, slope = _expected(monkeypatch, criterion, tied, mine, size)
        exact, exact_slope = _tied_trace(tied, mine, FORMS[estimator])
        torch.testing.assert_close(value, exact, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(slope, exact_slope, rtol=1e-7, atol=1e-9)


def _tied_trace(model: nn.Module, data: tuple[Tensor, Tensor], form: str) -> tuple[Tensor, Tensor]:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(model[0].weight.detach().clone())

        def forward(self, inputs: Tensor) -> Tensor:
            return torch.tanh(inputs @ self.weight.T) @ self.weight.T

    return _dense_trace(Plain(), CE, data, form)


def test_signed_roots(rng) -> None:
    """R+^2 - R-^2 is the matrix, of mixed sign, singular or a multiple of one; gradients pass gradcheck."""
    mixed = torch.tensor(rng.normal(size=(4, 3, 3)))
    mixed = mixed + mixed.mT
    flat = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    softmax = torch.diag_embed(flat) - flat.unsqueeze(2) * flat.unsqueeze(1)
    one = 0.7 * torch.eye(3, dtype=torch.float64)[None]
    for matrices in (mixed, softmax, one, torch.zeros(2, 3, 3, dtype=torch.float64)):
        above, below = signed_roots(matrices)
        again = above @ above if below is None else above @ above - below @ below
        torch.testing.assert_close(again, matrices, rtol=1e-12, atol=1e-14)
    assert signed_roots(softmax)[1] is None

    def both(entries: Tensor) -> tuple[Tensor, ...]:
        return tuple(root for root in signed_roots(entries + entries.mT) if root is not None)

    for matrices in (mixed, one):
        assert torch.autograd.gradcheck(both, (matrices.clone().requires_grad_(),))
    # Of a singular matrix the root is differentiable along what keeps its rank.
    logits = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64, requires_grad=True)

    def root_of_softmax(z: Tensor) -> Tensor:
        probs = z.softmax(1)
        return signed_roots(torch.diag_embed(probs) - probs.unsqueeze(2) * probs.unsqueeze(1))[0]

    assert torch.autograd.gradcheck(root_of_softmax, (logits,))


def test_lengths_of_what_enters(small, data) -> None:
    """Without its bias, or with its weight frozen, the closed form counts what is trained."""
    whole = HessianOperator(small, CE, [data]).dense()
    small[2].bias.requires_grad_(False)
    criterion = CurvatureRegularizer(small, CE, weight=1.0, estimator="last-layer")
    trace = criterion.penalised(small(data[0]), data[1]).trace
    torch.testing.assert_close(trace, whole[6:12, 6:12].trace(), rtol=1e-9, atol=1e-11)
    small[2].requires_grad_(True)
    small[2].weight.requires_grad_(False)
    trace = criterion.penalised(small(data[0]), data[1]).trace
    torch.testing.assert_close(trace, whole[12:, 12:].trace(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("form", ["hutchinson", "gauss-newton", "last-layer"])
@pytest.mark.parametrize("cost", [0, 10**9])
@pytest.mark.parametrize("gamma", [0.5, 1.5])
def test_finite_at_saturation(form, cost, gamma, monkeypatch) -> None:
    """Logits of 1e4 in float32 give a finite objective and gradient, for γ in (0, 2)."""
    monkeypatch.setattr(penalties, "ROOT_COST", cost)
    model = nn.Linear(1, 3, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1e4], [0.0], [-1e4]]))
    criterion = CurvatureRegularizer(model, FocalLoss(gamma=gamma), weight=1.0, estimator=form)
    total = criterion(model(torch.ones(3, 1)), torch.tensor([0, 1, 2]))
    total.backward()
    assert bool(torch.isfinite(total))
    assert model.weight.grad is not None
    assert bool(torch.isfinite(model.weight.grad).all())
