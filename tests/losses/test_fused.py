"""The Triton kernels of a last layer's losses: on a GPU where there is one, else in Triton's interpreter.

Skipped where Triton is not installed; the sentences that refuse are tested everywhere.
"""

import os
import sys
import types
from functools import partial
from importlib.util import find_spec

import pytest
import torch
from torch.nn import functional

from calibrant._math.errors import InputError
from calibrant.losses import (
    cross_entropy_loss,
    dual_focal_loss,
    focal_loss,
    linear_focal_loss,
    linear_loss,
    sample_focal_loss,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when the kernels are made

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
NUM_ROWS, WIDTH, NUM_CLASSES = 7, 3, 2100  # more classes than a block has


@pytest.fixture
def layer() -> tuple[torch.Tensor, ...]:
    """Inputs, weights and bias in float64; a logit of the first class is as good as impossible."""
    generator = torch.Generator().manual_seed(0)
    shapes = (NUM_ROWS, WIDTH), (NUM_CLASSES, WIDTH), (NUM_CLASSES,)
    found = [torch.randn(each, generator=generator, dtype=torch.float64) for each in shapes]
    found[2][0] = -torch.inf
    return tuple(each.to(DEVICE).requires_grad_() for each in found)


@pytest.fixture
def labels() -> torch.Tensor:
    """From both blocks, and two rows that do not count."""
    return torch.tensor([5, -100, 2099, 2047, -100, 2048, 1], device=DEVICE)


LOSSES = {
    "cross-entropy": cross_entropy_loss,
    "focal": focal_loss,
    "a small exponent": partial(focal_loss, gamma=0.5),
    "FLSD-53": sample_focal_loss,
}


@needs_triton
@pytest.mark.parametrize("ignored", [-100, 0])
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_it_is_the_loss_of_torch(name, reduction, ignored, layer, labels) -> None:
    """Values and gradients, in chunks that end within the rows, with ignored rows and class weights."""
    labels = labels.where(labels >= 0, ignored)
    weights = torch.linspace(1, 2, NUM_CLASSES, dtype=torch.float64, device=DEVICE)
    plain, fused = (
        linear_loss(
            *(*layer[:2], labels),
            loss=LOSSES[name],
            bias=layer[2],
            class_weight=weights,
            ignore_index=ignored,
            reduction=reduction,
            chunk_rows=3,
            kernel=kernel,
        )
        for kernel in ("torch", "triton")
    )
    torch.testing.assert_close(fused, plain, rtol=1e-12, atol=0)
    upstream = torch.linspace(1, 2, plain.numel(), dtype=torch.float64, device=DEVICE).reshape(plain.shape)
    expected = torch.autograd.grad(plain, layer, upstream)
    for mine, other in zip(torch.autograd.grad(fused, layer, upstream), expected, strict=True):
        assert (mine - other).abs().max() < 1e-12 * other.abs().max()


class _Plain(types.ModuleType):
    @staticmethod
    def log_sums(logits: torch.Tensor, labels: torch.Tensor, sums: torch.Tensor) -> None:
        sums.copy_(logits.scatter(1, labels[:, None], -torch.inf).logsumexp(1))

    @staticmethod
    def slopes(logits: torch.Tensor, labels: torch.Tensor, sums: torch.Tensor, factors: torch.Tensor) -> None:
        each = factors[:, None] * (logits - sums[:, None]).exp()
        logits.copy_(each.scatter(1, labels[:, None], -factors[:, None]))


@pytest.mark.parametrize("ignored", [-100, 0, 2])
def test_a_class_may_be_ignored(ignored, monkeypatch) -> None:
    """Values and gradients are those of torch whatever class is ignored, the first one too."""
    monkeypatch.setitem(sys.modules, "calibrant.losses._triton_kernels", _Plain(""))
    monkeypatch.setattr("calibrant.losses.linear._check_fused", lambda *_: None)
    generator = torch.Generator().manual_seed(0)
    layer = [
        torch.randn(each, 2, generator=generator, dtype=torch.float64, requires_grad=True) for each in (4, 3)
    ]
    labels = torch.tensor([0, 1, 2, 1])
    plain, fused = (
        linear_focal_loss(*layer, labels, ignore_index=ignored, kernel=kernel)
        for kernel in ("torch", "triton")
    )
    torch.testing.assert_close(fused, plain, rtol=1e-12, atol=0)
    pairs = zip(*(torch.autograd.grad(each, layer) for each in (fused, plain)), strict=True)
    for mine, other in pairs:
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_low_precision_is_near_the_exact(dtype, layer, labels) -> None:
    """The gradient of the inputs within some eps of that of float64; no value is lost to overflow."""
    hidden, weight = (each.detach().to(dtype).requires_grad_() for each in layer[:2])
    loss = linear_focal_loss(hidden, weight, labels, chunk_rows=3, kernel="triton")
    assert loss.dtype == dtype
    (found,) = torch.autograd.grad(loss, hidden)
    exact_hidden = hidden.detach().double().requires_grad_()
    exact = focal_loss(functional.linear(exact_hidden, weight.detach().double()), labels)
    (expected,) = torch.autograd.grad(exact, exact_hidden)
    # Each logit is rounded to the type, and so is its gradient; 2100 of them are added.
    within = max(4 * torch.finfo(dtype).eps, 1e-5)
    assert (found.double() - expected).abs().max() < within * expected.abs().max()
    torch.testing.assert_close(loss.double(), exact, rtol=within, atol=0)


@needs_triton
def test_the_sure_and_the_lost(layer) -> None:
    """Where all other classes are impossible nothing pulls; where the true one is, it is pulled in full."""
    nothing, label = torch.zeros(1, 1, dtype=torch.float64, device=DEVICE), torch.tensor([2], device=DEVICE)
    for bias, value, at_label in (
        ([-torch.inf, -torch.inf, 1.0], 0, 0),
        ([0.0, -torch.inf, -800.0], 800, -1),
    ):
        logits = torch.tensor(bias, dtype=torch.float64, device=DEVICE, requires_grad=True)
        loss = linear_loss(
            nothing, nothing.expand(3, 1), label, loss=cross_entropy_loss, bias=logits, kernel="triton"
        )
        loss.backward()
        assert loss == value
        assert logits.grad is not None
        assert logits.grad.tolist() == [-at_label, 0, at_label]


@needs_triton
def test_nothing_to_do_is_nothing(layer) -> None:
    """No rows, or none that count: a sum of zero and a mean of nothing, as of torch's own."""
    hidden, weight, _ = layer
    for rows in (0, NUM_ROWS):
        nothing = torch.full((rows,), -100, device=DEVICE)
        total = linear_focal_loss(hidden[:rows], weight, nothing, reduction="sum", kernel="triton")
        assert total == 0
        assert linear_focal_loss(hidden[:rows], weight, nothing, kernel="triton").isnan()


@needs_triton
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") == "1", reason="interpreted")
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("scores", ["fp64", "fp32", "fp16", "bf16"])
def test_the_kernels_compile(scores, capability) -> None:
    """To machine code, which takes no GPU; run with ``TRITON_INTERPRET=0``."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from calibrant.losses import _triton_kernels

    wide = "fp64" if scores == "fp64" else "fp32"
    pointers = {"logits": f"*{scores}", "labels": "*i64", "sums": f"*{wide}"}
    numbers = {"classes": "i32", "stride": "i32", "block": "constexpr"}
    for kernel, more in ((_triton_kernels._log_sums, {}), (_triton_kernels._slopes, {"factors": f"*{wide}"})):
        source = ASTSource(triton.jit(kernel), pointers | more | numbers, {"block": 2048})
        assert triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["cubin"]


def test_what_the_kernels_do_not_have_is_said(monkeypatch) -> None:
    given = torch.zeros(2, 3), torch.zeros(6, 3), torch.zeros(2, dtype=torch.long)
    with pytest.raises(
        InputError, match=r"`kernel` must be 'torch' for this loss; 'triton' has cross_entropy"
    ):
        linear_loss(*given, loss=dual_focal_loss, kernel="triton")
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    said = "on this device" if find_spec("triton") else "where Triton is not installed"
    with pytest.raises(InputError, match=f"`kernel` must be 'torch' {said}"):
        linear_focal_loss(*given, kernel="triton")
    with pytest.raises(InputError, match='`kernel` must be one of "torch", "triton"'):
        linear_focal_loss(*given, kernel="cuda")
