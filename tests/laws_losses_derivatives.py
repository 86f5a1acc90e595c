"""The laws of losses: gradients, transforms, capture, and what they leave alone."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.autograd import forward_ad

from laws_losses import class_weights, law
from laws_losses import problem as large_problem
from rosters_losses import Loss

if TYPE_CHECKING:
    from collections.abc import Iterator

CLOSED = {"rtol": 1e-11, "atol": 1e-11}


def problem(loss: Loss, num_samples: int = 6, num_classes: int = 4) -> tuple[Tensor, Tensor]:
    """Small float64 logits, and labels of which one is ignored."""
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    if loss.multilabel:
        return logits, torch.randint(2, (num_samples, num_classes), generator=generator)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    labels[1] = -100
    return logits, labels


def gradient(loss: Loss, logits: Tensor, labels: Tensor) -> Tensor:
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad(loss(leaf, labels), leaf)[0]


@contextmanager
def _loops_allowed() -> Iterator[None]:
    """Torch has no batching rule for some operations yet and says that it loops."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield


@law()
def has_the_gradient_of_finite_differences(loss: Loss) -> None:
    logits, labels = large_problem(loss, num_samples=6, num_classes=4)
    weight = class_weights(4)
    assert torch.autograd.gradcheck(lambda z: loss(z, labels, weight=weight), logits.requires_grad_())


@law(twice_differentiable=True)
def has_the_curvature_of_finite_differences(loss: Loss) -> None:
    """Gradients can be differentiated, and their derivatives agree with finite differences in float64."""
    logits, labels = large_problem(loss, num_samples=5, num_classes=3)
    weight = class_weights(3)
    assert torch.autograd.gradgradcheck(lambda z: loss(z, labels, weight=weight), logits.requires_grad_())


@law()
def keeps_its_graph(loss: Loss) -> None:
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


@law(twice_differentiable=True)
def has_one_gradient_with_and_without_a_graph(loss: Loss) -> None:
    """The gradient that can be differentiated equals the closed one, also after it, and is differentiable."""
    logits, labels = problem(loss)
    expected = gradient(loss, logits, labels)
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, labels)
    (plain,) = torch.autograd.grad(value, leaf, create_graph=True)
    (closed,) = torch.autograd.grad(value, leaf, retain_graph=True)
    torch.testing.assert_close(plain.detach(), expected, **CLOSED)
    torch.testing.assert_close(closed, expected, **CLOSED)
    assert torch.autograd.grad(plain.square().sum(), leaf)[0].any()


@law()
def has_its_gradient_by_func_grad(loss: Loss) -> None:
    logits, labels = problem(loss)
    expected = gradient(loss, logits, labels)
    torch.testing.assert_close(torch.func.grad(loss)(logits, labels), expected, **CLOSED)


@law()
def has_its_gradient_by_forward_mode(loss: Loss) -> None:
    """Forward mode gives the gradient's product with the direction, by torch.func and by dual numbers."""
    logits, labels = problem(loss)
    direction = torch.linspace(-1, 1, logits.numel(), dtype=torch.float64).reshape(logits.shape)
    expected = (gradient(loss, logits, labels) * direction).sum()
    _, tangent = torch.func.jvp(lambda z: loss(z, labels), (logits,), (direction,))
    torch.testing.assert_close(tangent, expected, **CLOSED)
    with forward_ad.dual_level():
        value = loss(forward_ad.make_dual(logits, direction), labels)
        torch.testing.assert_close(forward_ad.unpack_dual(value).tangent, expected, **CLOSED)


@law(twice_differentiable=True)
def has_one_hessian(loss: Loss) -> None:
    """Forward over reverse, reverse over reverse and vectorised reverse give one Hessian."""
    logits, labels = problem(loss, num_samples=3, num_classes=3)
    expected = torch.autograd.functional.hessian(lambda z: loss(z, labels), logits)
    vectorised = torch.autograd.functional.hessian(lambda z: loss(z, labels), logits, vectorize=True)
    torch.testing.assert_close(torch.func.hessian(loss)(logits, labels), expected, **CLOSED)
    torch.testing.assert_close(vectorised, expected, **CLOSED)


@law()
def maps_over_models(loss: Loss) -> None:
    """A batch of models' logits gives each one's loss and gradient."""
    logits, labels = problem(loss)
    stack = torch.stack([logits, 2 * logits, -logits])
    with _loops_allowed():
        values = torch.func.vmap(loss, in_dims=(0, None))(stack, labels)
        gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))(stack, labels)
    for k, one in enumerate(stack):
        torch.testing.assert_close(values[k], loss(one, labels), **CLOSED)
        torch.testing.assert_close(gradients[k], gradient(loss, one, labels), **CLOSED)


@law()
def maps_over_labels(loss: Loss) -> None:
    """A batch of labels gives the loss under each."""
    logits, labels = problem(loss)
    pair = torch.stack([labels, labels.flip(0)])
    with _loops_allowed():
        by_labels = torch.func.vmap(loss, in_dims=(None, 0))(logits, pair)
    for value, each in zip(by_labels, pair, strict=True):
        torch.testing.assert_close(value, loss(logits, each), **CLOSED)


@law(batch=False)
def has_gradients_per_sample(loss: Loss) -> None:
    """Mapped over single samples, grad gives the rows of the summed loss's gradient."""
    logits, labels = problem(loss)
    labels = labels.clamp(min=0)
    with _loops_allowed():
        rows = torch.func.vmap(torch.func.grad(lambda row, label: loss(row, label, reduction="sum")))(
            logits, labels
        )
    leaf = logits.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf, labels, reduction="sum"), leaf)
    torch.testing.assert_close(rows, expected, **CLOSED)


@law(batch=False)
def has_many_gradients_at_once(loss: Loss) -> None:
    """The vectorised Jacobian of the values equals the looped one."""
    logits, labels = problem(loss)

    def values(z: Tensor) -> Tensor:
        return loss(z, labels, reduction="none")

    with _loops_allowed():
        vectorised = torch.autograd.functional.jacobian(values, logits, vectorize=True)
    torch.testing.assert_close(vectorised, torch.autograd.functional.jacobian(values, logits), **CLOSED)


@law()
def is_captured(loss: Loss) -> None:
    """The loss is captured in one graph, forward and backward."""
    compiles(loss, backend="aot_eager")


def compiles(loss: Loss, *, backend: str) -> None:
    """Compiled code gives the eager value and gradient."""
    logits, labels = problem(loss)
    torch.compiler.reset()  # every loss is a case of its own, not one more variant of the last
    compiled = torch.compile(lambda z, t: loss(z, t), fullgraph=True, backend=backend)
    leaf = logits.clone().requires_grad_()
    value = compiled(leaf, labels)
    torch.testing.assert_close(value.detach(), loss(logits, labels), **CLOSED)
    expected = gradient(loss, logits, labels)
    torch.testing.assert_close(torch.autograd.grad(value, leaf)[0], expected, **CLOSED)


@law(looks=False)
def looks_at_no_value(loss: Loss) -> None:
    """A tensor without data is enough: only shapes and types are looked at, so nothing synchronises."""
    logits, labels = large_problem(loss)
    leaf = logits.to("meta").requires_grad_()
    options = {
        key: option.to("meta") if isinstance(option, Tensor) else option
        for key, option in loss.options.items()
    }
    weight = class_weights().to("meta")
    value = replace(loss, options=options)(leaf, labels.to("meta"), weight=weight)
    assert value.shape == ()
    assert value.device.type == "meta"
    (pulled,) = torch.autograd.grad(value, leaf)
    assert pulled.shape == logits.shape


@law()
def leaves_its_inputs_alone(loss: Loss) -> None:
    """Neither forward nor backward writes into logits, labels or class weights."""
    logits, labels = large_problem(loss)
    weight = class_weights()
    before = [each.clone() for each in (logits, labels, weight)]
    leaf = logits.requires_grad_()
    loss(leaf, labels, weight=weight).backward()
    for each, was in zip((leaf.detach(), labels, weight), before, strict=True):
        torch.testing.assert_close(each, was, rtol=0, atol=0)
