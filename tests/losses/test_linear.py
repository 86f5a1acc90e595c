"""Losses of the last layer in chunks: those of its logits, gradients too, in the memory of a chunk."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from calibrant import losses
from calibrant._math.errors import InputError
from calibrant.losses import cross_entropy_loss, focal_loss, linear_focal_loss, linear_loss
from rosters_losses import LOSSES

ROW_LOSSES = [loss for loss in LOSSES if not (loss.batch or loss.multilabel)]
NUM_ROWS, WIDTH, NUM_CLASSES = 13, 3, 6


@pytest.fixture
def layer() -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, weights and bias of a last layer."""
    generator = torch.Generator().manual_seed(0)
    shapes = (NUM_ROWS, WIDTH), (NUM_CLASSES, WIDTH), (NUM_CLASSES,)
    hidden, weight, bias = (torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    return hidden.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()


@pytest.fixture
def labels() -> Tensor:
    """With some rows that do not count; a whole chunk of them for chunks of 4."""
    found = torch.arange(NUM_ROWS) % NUM_CLASSES
    found[[1, 4, 5, 6, 7]] = -100
    return found


def _both(loss: Any, layer: Any, labels: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """The loss of the layer in chunks, and of its logits."""
    hidden, weight, bias = layer
    chunks = linear_loss(hidden, weight, labels, loss=loss, bias=bias, chunk_rows=4, **options)
    plain = dict(options)
    if "class_weight" in plain:
        plain["weight"] = plain.pop("class_weight")
    return chunks, loss(functional.linear(hidden, weight, bias), labels, **plain)


@pytest.mark.parametrize(
    ("reduction", "weighted"), [("mean", False), ("mean", True), ("sum", True), ("none", False)]
)
@pytest.mark.parametrize("entry", ROW_LOSSES, ids=lambda entry: entry.name)
def test_it_is_the_loss_of_the_logits(entry, reduction, weighted, layer, labels) -> None:
    """Values and gradients of every loss with a value per row; with ignored rows and class weights."""
    function = partial(entry.module.function, **entry.options)
    options = {"class_weight": torch.arange(1.0, NUM_CLASSES + 1, dtype=torch.float64)} if weighted else {}
    chunks, plain = _both(function, layer, labels, reduction=reduction, **options)
    torch.testing.assert_close(chunks, plain, rtol=1e-12, atol=1e-13)
    upstream = torch.linspace(1, 2, chunks.numel(), dtype=torch.float64).reshape(chunks.shape)
    found = torch.autograd.grad(chunks, layer, upstream)
    expected = torch.autograd.grad(plain, layer, upstream)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_derivatives_are_those_of_differences(reduction, layer, labels) -> None:
    """``gradcheck`` and, through the plain form, ``gradgradcheck``."""

    def value(*layer: Tensor) -> Tensor:
        hidden, weight, bias = layer
        return linear_focal_loss(
            hidden, weight, labels[:5], gamma=2, bias=bias, reduction=reduction, chunk_rows=2
        )

    hidden, weight, bias = layer
    few = hidden[:5].detach().requires_grad_()
    assert torch.autograd.gradcheck(value, (few, weight, bias))
    assert torch.autograd.gradgradcheck(value, (few, weight, bias))


def test_a_second_backward_pass_gives_the_same(layer, labels) -> None:
    hidden, weight, _ = layer
    loss = linear_focal_loss(hidden, weight, labels, chunk_rows=4)
    first = torch.autograd.grad(loss, (hidden, weight), retain_graph=True)
    second = torch.autograd.grad(3 * loss, (hidden, weight))
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(3 * one, other, rtol=1e-12, atol=0)


def test_only_what_is_asked_for_gets_a_gradient(layer, labels) -> None:
    hidden, weight, _ = layer
    linear_focal_loss(hidden, weight.detach(), labels, chunk_rows=4).backward()
    linear_focal_loss(hidden.detach(), weight.detach(), labels, chunk_rows=4)
    assert hidden.grad is not None
    assert weight.grad is None
    assert not linear_focal_loss(hidden.detach(), weight.detach(), labels).requires_grad


def test_tokens_of_several_sequences_keep_their_shape(layer, labels) -> None:
    """``(..., H)`` goes with labels ``(...)``, and the values have their shape."""
    hidden, weight, _ = layer
    values = linear_focal_loss(
        hidden[:12].reshape(3, 4, -1), weight, labels[:12].reshape(3, 4), reduction="none"
    )
    flat = linear_focal_loss(hidden[:12], weight, labels[:12], reduction="none")
    assert values.shape == (3, 4)
    assert torch.equal(values.flatten(), flat)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_adds_up_in_float32(dtype, layer, labels) -> None:
    """The gradient of the weights over many chunks is as near to the exact one as a single product's."""
    hidden, weight, _ = (each.detach().to(dtype).requires_grad_() for each in layer)
    many, classes = hidden.repeat(40, 1), labels.repeat(40)
    loss = linear_focal_loss(many, weight, classes, chunk_rows=4)
    assert loss.dtype == dtype
    (found,) = torch.autograd.grad(loss, weight)
    exact_weight = weight.detach().double().requires_grad_()
    logits = functional.linear(many.double(), exact_weight)
    (exact,) = torch.autograd.grad(focal_loss(logits, classes), exact_weight)
    # Logits rounded to the type's eps move the gradient by a few eps of its largest entry; sums add nothing.
    assert (found.double() - exact).abs().max() < 4 * torch.finfo(dtype).eps * exact.abs().max()


def test_autocast_multiplies_in_its_type(layer, labels) -> None:
    """Under autocast the products are in the lower type and the loss in float32."""
    hidden, weight, bias = (each.detach().float().requires_grad_() for each in layer)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        chunks, plain = _both(focal_loss, (hidden, weight, bias), labels)
    assert chunks.dtype == plain.dtype == torch.float32
    torch.testing.assert_close(chunks, plain, rtol=1e-6, atol=0)
    chunks.backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


def test_no_row_that_counts(layer) -> None:
    """The mean of nothing is NaN, its gradient and sum zero, as cross-entropy's; so it is without any row."""
    hidden, weight, _ = layer
    for rows in (NUM_ROWS, 0):
        nothing = torch.full((rows,), -100)
        mean = linear_focal_loss(hidden[:rows], weight, nothing)
        assert mean.isnan()
        assert not any(each.any() for each in torch.autograd.grad(mean, (hidden, weight)))
        total = linear_focal_loss(hidden[:rows], weight, nothing, reduction="sum")
        assert total == 0
        assert linear_focal_loss(hidden[:rows], weight, nothing, reduction="none").tolist() == [0.0] * rows


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of the tracing
def test_it_compiles(layer, labels) -> None:
    """``torch.compile`` goes around it and gives the same."""
    hidden, weight, _ = layer
    compiled = torch.compile(lambda h, w: linear_focal_loss(2 * h, w, labels, chunk_rows=4), backend="eager")
    loss = compiled(hidden, weight)
    assert torch.equal(loss, linear_focal_loss(2 * hidden, weight, labels, chunk_rows=4))
    loss.backward()
    assert hidden.grad is not None


def test_wrong_labels_are_named(layer) -> None:
    """A label that is that of no class is told with the classes that there are."""
    hidden, weight, _ = layer
    with pytest.raises(IndexError, match=r"Target 6 is out of bounds: `labels` must be in 0\.\.5"):
        linear_focal_loss(hidden, weight, torch.full((NUM_ROWS,), NUM_CLASSES))


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"hidden": torch.zeros(2, 4)},
        r"`hidden` must have shape \(2, 3\) to go with `weight` of shape \(6, 3\)",
    ),
    ({"labels": torch.zeros(3, dtype=torch.long)}, r"`labels` must have shape \(2,\) to go with `hidden`"),
    ({"weight": torch.zeros(1, 3)}, r"`weight` must have shape \(V, H\) with at least two classes"),
    ({"bias": torch.zeros(5)}, r"`bias` must have shape \(6,\)"),
    ({"class_weight": torch.zeros(5)}, r"`class_weight` must have shape \(6,\)"),
    ({"weight": torch.zeros(6, 3, dtype=torch.float64)}, r"`weight` must have the type of `hidden`"),
    ({"weight": torch.zeros(6, 3, device="meta")}, r"`weight` must be on the device of `hidden`"),
    ({"reduction": "avg"}, r"`reduction` must be 'mean', 'sum' or 'none'"),
    ({"chunk_rows": 0}, r"`chunk_rows` must be at least 1"),
    (
        {"loss": losses.mmce_loss},
        r"`loss` must be a function with a value per row.*MMCE has no value per sample",
    ),
    ({"loss": losses.FocalLoss()}, r"`loss` must be a function with a value per row"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[said[:30] for _, said in WRONG])
def test_wrong_arguments_get_a_sentence(wrong, said) -> None:
    """Shapes, types, devices and losses that do not fit are refused before anything is computed."""
    right = {
        "hidden": torch.zeros(2, 3),
        "weight": torch.zeros(6, 3),
        "labels": torch.zeros(2, dtype=torch.long),
    }
    given: dict[str, Any] = {**right, "loss": cross_entropy_loss, **wrong}
    with pytest.raises(InputError, match=said):
        linear_loss(given.pop("hidden"), given.pop("weight"), given.pop("labels"), **given)


def test_integers_are_labels_and_floats_are_not() -> None:
    hidden, weight = torch.zeros(2, 3), torch.zeros(6, 3)
    with pytest.raises(TypeError, match="`labels` must be integers"):
        linear_focal_loss(hidden, weight, torch.zeros(2))
    with pytest.raises(TypeError, match="`weight` must be floating-point"):
        linear_focal_loss(hidden, weight.long(), torch.zeros(2, dtype=torch.long))


def test_logits_are_never_held_at_once() -> None:
    seen: list[int] = []

    def watched(logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
        seen.append(len(logits))
        return focal_loss(logits, labels, **options)

    hidden = torch.randn(50, 4, requires_grad=True)
    linear_loss(
        hidden, torch.randn(9, 4), torch.zeros(50, dtype=torch.long), loss=watched, chunk_rows=8
    ).backward()
    assert seen == [1] + [8] * 6 + [2]  # the first tries the loss
