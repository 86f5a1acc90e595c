"""Transformed, batched, compiled or taken twice, gradients are the ordinary ones."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from calibrant import losses

CLOSED = {"rtol": 1e-11, "atol": 1e-11}

pytestmark = [
    # torch says so of itself when forward mode or its compiler is first used.
    pytest.mark.filterwarnings(r"ignore:`torch\.jit\.script(_method)?` is deprecated:DeprecationWarning"),
    # Where a graph is captured in pieces, torch's own look at the tensor between them.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]


def problem(loss: Any, num_samples: int = 6, num_classes: int = 4) -> tuple[Tensor, Tensor]:
    """Small float64 logits, and labels of which one is ignored."""
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    if loss.multilabel:
        return logits, torch.randint(2, (num_samples, num_classes), generator=generator)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    labels[1] = -100
    return logits, labels


def gradient(loss: Any, logits: Tensor, labels: Tensor) -> Tensor:
    """The ordinary gradient."""
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad(loss(leaf, labels), leaf)[0]


def test_second_backward_pass(loss: Any) -> None:
    """A graph that is kept gives the same gradient again, to the last bit, and after it was given away."""
    logits, labels = problem(loss)
    leaf = logits.requires_grad_()
    value = loss(leaf, labels)
    (first,) = torch.autograd.grad(value, leaf, retain_graph=True)
    kept = first.clone()
    first.zero_()
    (second,) = torch.autograd.grad(value, leaf, retain_graph=True)
    (third,) = torch.autograd.grad(3 * value, leaf)
    assert torch.equal(second, kept)
    torch.testing.assert_close(third, 3 * kept, **CLOSED)


def test_gradient_with_a_graph_is_the_gradient(twice_loss: Any) -> None:
    """The gradient that can be differentiated equals the closed one, also after it and before it."""
    logits, labels = problem(twice_loss)
    expected = gradient(twice_loss, logits, labels)
    leaf = logits.clone().requires_grad_()
    value = twice_loss(leaf, labels)
    (plain,) = torch.autograd.grad(value, leaf, create_graph=True)
    (closed,) = torch.autograd.grad(value, leaf, retain_graph=True)
    torch.testing.assert_close(plain.detach(), expected, **CLOSED)
    torch.testing.assert_close(closed, expected, **CLOSED)


def test_func_grad(transformed_loss: Any) -> None:
    """torch.func.grad gives the gradient."""
    logits, labels = problem(transformed_loss)
    expected = gradient(transformed_loss, logits, labels)
    torch.testing.assert_close(torch.func.grad(transformed_loss)(logits, labels), expected, **CLOSED)


def test_func_jvp(transformed_loss: Any) -> None:
    """Forward mode gives the gradient's product with the direction, by torch.func and by dual numbers."""
    logits, labels = problem(transformed_loss)
    direction = torch.linspace(-1, 1, logits.numel(), dtype=torch.float64).reshape(logits.shape)
    expected = (gradient(transformed_loss, logits, labels) * direction).sum()
    _, tangent = torch.func.jvp(lambda z: transformed_loss(z, labels), (logits,), (direction,))
    torch.testing.assert_close(tangent, expected, **CLOSED)
    with forward_ad.dual_level():
        value = transformed_loss(forward_ad.make_dual(logits, direction), labels)
        torch.testing.assert_close(forward_ad.unpack_dual(value).tangent, expected, **CLOSED)


def test_hessian(transformed_loss: Any) -> None:
    """Forward over reverse, reverse over reverse and vectorised reverse give one Hessian."""
    logits, labels = problem(transformed_loss, num_samples=3, num_classes=3)
    expected = torch.autograd.functional.hessian(lambda z: transformed_loss(z, labels), logits)
    vectorised = torch.autograd.functional.hessian(
        lambda z: transformed_loss(z, labels), logits, vectorize=True
    )
    torch.testing.assert_close(torch.func.hessian(transformed_loss)(logits, labels), expected, **CLOSED)
    torch.testing.assert_close(vectorised, expected, **CLOSED)


def test_vmap_over_models(transformed_loss: Any) -> None:
    """A batch of models' logits gives each one's loss and gradient; so does a batch of labels."""
    logits, labels = problem(transformed_loss)
    stack = torch.stack([logits, 2 * logits, -logits])
    with warnings.catch_warnings():
        # torch has no batching rule for some operations yet and says that it loops.
        warnings.filterwarnings("ignore", message="There is a performance drop")
        values = torch.func.vmap(transformed_loss, in_dims=(0, None))(stack, labels)
        gradients = torch.func.vmap(torch.func.grad(transformed_loss), in_dims=(0, None))(stack, labels)
    for k, one in enumerate(stack):
        torch.testing.assert_close(values[k], transformed_loss(one, labels), **CLOSED)
        torch.testing.assert_close(gradients[k], gradient(transformed_loss, one, labels), **CLOSED)
    if "smoothing" not in transformed_loss.options:  # torch's own smoothing has no rule for this
        pair = torch.stack([labels, labels.flip(0)])
        by_labels = torch.func.vmap(transformed_loss, in_dims=(None, 0))(logits, pair)
        torch.testing.assert_close(by_labels[1], transformed_loss(logits, labels.flip(0)), **CLOSED)


def test_per_sample_gradients(sample_loss: Any) -> None:
    """Mapped over single samples, grad gives the rows of the summed loss's gradient."""
    logits, labels = problem(sample_loss)
    labels = labels.clamp(min=0)

    def one(row: Tensor, label: Tensor) -> Tensor:
        return sample_loss(row, label, reduction="sum")

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        rows = torch.func.vmap(torch.func.grad(one))(logits, labels)
    leaf = logits.clone().requires_grad_()
    (expected,) = torch.autograd.grad(sample_loss(leaf, labels, reduction="sum"), leaf)
    torch.testing.assert_close(rows, expected, **CLOSED)


def test_many_gradients_at_once(sample_loss: Any) -> None:
    """The vectorised Jacobian of the values equals the looped one."""
    logits, labels = problem(sample_loss)

    def values(z: Tensor) -> Tensor:
        return sample_loss(z, labels, reduction="none")

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        vectorised = torch.autograd.functional.jacobian(values, logits, vectorize=True)
    torch.testing.assert_close(vectorised, torch.autograd.functional.jacobian(values, logits), **CLOSED)


def test_trace(transformed_loss: Any) -> None:
    """The loss is captured, in one graph where it claims so, forward and backward."""
    logits, labels = problem(transformed_loss)
    torch.compiler.reset()  # every loss is a case of its own, not one more variant of the last
    compiled = torch.compile(
        lambda z, t: transformed_loss(z, t), fullgraph=transformed_loss.one_graph, backend="aot_eager"
    )
    leaf = logits.clone().requires_grad_()
    value = compiled(leaf, labels)
    torch.testing.assert_close(value.detach(), transformed_loss(logits, labels), **CLOSED)
    expected = gradient(transformed_loss, logits, labels)
    torch.testing.assert_close(torch.autograd.grad(value, leaf)[0], expected, **CLOSED)


def test_a_recorded_graph_depends_on_its_input() -> None:
    """What make_fx records of a focal loss is computed from other logits as from the first."""
    from torch.fx.experimental.proxy_tensor import make_fx

    labels = torch.tensor([0, 2, 1])
    first, other = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0))
    recorded = make_fx(lambda z: losses.focal_loss(z, labels, gamma=2.0))(first)
    torch.testing.assert_close(recorded(other), losses.focal_loss(other, labels, gamma=2.0))
    far = 200 * other  # some probabilities vanish
    torch.testing.assert_close(recorded(far), losses.focal_loss(far, labels, gamma=2.0))


@pytest.mark.slow
def test_compile(transformed_loss: Any) -> None:
    """Compiled code gives the eager value and gradient."""
    logits, labels = problem(transformed_loss)
    torch.compiler.reset()  # every loss is a case of its own, not one more variant of the last
    compiled = torch.compile(lambda z, t: transformed_loss(z, t), fullgraph=transformed_loss.one_graph)
    leaf = logits.clone().requires_grad_()
    value = compiled(leaf, labels)
    torch.testing.assert_close(value.detach(), transformed_loss(logits, labels), **CLOSED)
    expected = gradient(transformed_loss, logits, labels)
    torch.testing.assert_close(torch.autograd.grad(value, leaf)[0], expected, **CLOSED)
