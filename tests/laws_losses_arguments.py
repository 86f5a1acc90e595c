"""The laws of losses: shapes and types, soft targets, modules."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from laws_losses import CLOSED, OTHER, SINGLE, class_weights, law, problem, value_and_gradient
from rosters_losses import Loss


@law()
def takes_more_dimensions(loss: Loss) -> None:
    """(N, C, d1, d2) is as many samples in rows."""
    logits, labels = problem(loss)
    value, gradient = value_and_gradient(loss, logits, labels)
    shaped = logits.reshape(4, 3, 2, 5).movedim(-1, 1)
    shaped_labels = labels.reshape(4, 3, 2, 5).movedim(-1, 1) if loss.multilabel else labels.reshape(4, 3, 2)
    shaped_value, shaped_gradient = value_and_gradient(loss, shaped, shaped_labels)
    torch.testing.assert_close(shaped_value, value, **CLOSED)
    torch.testing.assert_close(shaped_gradient.movedim(1, -1).reshape(24, 5), gradient, **CLOSED)
    weight = class_weights()
    weighted = loss(logits, labels, weight=weight)
    torch.testing.assert_close(loss(shaped, shaped_labels, weight=weight), weighted, **CLOSED)


@law(batch=False)
def has_a_value_per_position(loss: Loss) -> None:
    """Without reduction the values are in the shape of the labels; (C,) is one sample."""
    logits, labels = problem(loss)
    values = loss(logits, labels, reduction="none")
    shaped = logits.reshape(4, 3, 2, 5).movedim(-1, 1)
    shaped_labels = labels.reshape(4, 3, 2, 5).movedim(-1, 1) if loss.multilabel else labels.reshape(4, 3, 2)
    shaped_values = loss(shaped, shaped_labels, reduction="none")
    assert shaped_values.shape == shaped_labels.shape
    expected = values.reshape(4, 3, 2, 5).movedim(-1, 1) if loss.multilabel else values.reshape(4, 3, 2)
    torch.testing.assert_close(shaped_values, expected, **CLOSED)
    torch.testing.assert_close(loss(logits[0], labels[0], reduction="none"), values[0], **CLOSED)


@law()
def becomes_cross_entropy(loss: Loss) -> None:
    """Its limiting case is torch's cross-entropy, to the last bit (with several labels: to rounding)."""
    if loss.limit is None:
        return
    logits, labels = problem(loss)
    for dtype in (torch.float64, torch.float32):
        scores, weight = logits.to(dtype), class_weights().to(dtype)
        if loss.multilabel:
            expected = functional.binary_cross_entropy_with_logits(scores, labels.to(dtype))
            tolerance = OTHER if dtype == torch.float64 else SINGLE
            torch.testing.assert_close(loss(scores, labels, **loss.limit), expected, **tolerance)
            continue
        value, gradient = value_and_gradient(
            loss, scores, labels, **loss.limit, weight=weight, ignore_index=1
        )
        leaf = scores.clone().requires_grad_()
        expected = functional.cross_entropy(leaf, labels, weight=weight, ignore_index=1)
        assert torch.equal(value, expected.detach())
        assert torch.equal(gradient, torch.autograd.grad(expected, leaf)[0])


@law(soft=True)
def takes_soft_targets(loss: Loss) -> None:
    """Targets that are certain are labels; the mean divides by the number of samples, also with weights."""
    logits, labels = problem(loss)
    hot = functional.one_hot(labels, 5).double()
    torch.testing.assert_close(loss(logits, None, targets=hot), loss(logits, labels), **CLOSED)
    if loss.batch:
        return
    targets = torch.softmax(torch.randn(24, 5, generator=torch.Generator().manual_seed(3)).double(), 1)
    for more in ({}, {"weight": class_weights()}):
        values = loss(logits, None, targets=targets, reduction="none", **more)
        torch.testing.assert_close(loss(logits, None, targets=targets, **more), values.mean(), **CLOSED)
        total = loss(logits, None, targets=targets, reduction="sum", **more)
        torch.testing.assert_close(total, values.sum(), **CLOSED)


@law(soft=True, batch=False, expects=True)
def is_its_expectation_under_soft_targets(loss: Loss) -> None:
    """Targets are weights of labels, each with the weight of its class."""
    logits, targets, per_class = _by_class(loss)
    values = loss(logits, None, targets=targets, reduction="none")
    torch.testing.assert_close(values, (targets * per_class()).sum(1), **OTHER)
    weight = class_weights()
    weighted = weight * per_class() if loss.scales else per_class(weight=weight)
    values = loss(logits, None, targets=targets, weight=weight, reduction="none")
    torch.testing.assert_close(values, (targets * weighted).sum(1), **OTHER)


@law(soft=True, expects=False)
def measures_the_distance_to_soft_targets(loss: Loss) -> None:
    """The distance is to the targets, not the mean of the distances to the labels; the rest is expected."""
    assert loss.distance is not None
    order, size = loss.distance
    logits, targets, per_class = _by_class(loss)
    probs, hot = torch.softmax(logits, 1), torch.eye(5, dtype=torch.float64)
    to_labels = ((probs.unsqueeze(1) - hot).abs() ** order).sum(2)  # (24, 5)
    to_targets = ((probs - targets).abs() ** order).sum(1)
    for more in ({}, {"weight": class_weights()}):
        shares = targets * more.get("weight", 1.0)
        excess = (shares * to_labels).sum(1) - shares.sum(1) * to_targets
        values = loss(logits, None, targets=targets, reduction="none", **more)
        torch.testing.assert_close(values, (targets * per_class(**more)).sum(1) - size * excess, **OTHER)


def _by_class(loss: Loss) -> tuple[Tensor, Tensor, Callable[..., Tensor]]:
    """Logits, targets, and the values that each class would give for a label, (24, 5)."""
    logits, _ = problem(loss)
    targets = torch.softmax(torch.randn(24, 5, generator=torch.Generator().manual_seed(3)).double(), 1)

    def per_class(**more: Any) -> Tensor:
        return torch.stack(
            [loss(logits, torch.full((24,), k), reduction="none", **more) for k in range(5)], dim=1
        )

    return logits, targets, per_class


@law()
def takes_labels_of_any_integer_type(loss: Loss) -> None:
    """int32, int16 and uint8 labels are those of int64."""
    logits, labels = problem(loss)
    for dtype in (torch.int32, torch.int16, torch.uint8):
        torch.testing.assert_close(loss(logits, labels.to(dtype)), loss(logits, labels), **CLOSED)


@law()
def is_single_under_autocast(loss: Loss) -> None:
    """Under autocast the loss of half-precision logits is float32, as cross-entropy's."""
    logits, labels = problem(loss)
    half = logits.bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(half, labels)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(half.float(), labels), **SINGLE)
    (gradient,) = torch.autograd.grad(value, half)
    assert gradient.dtype == torch.bfloat16


@law()
def is_computed_in_single(loss: Loss) -> None:
    """float16 and bfloat16 logits give the float32 result, rounded."""
    logits, labels = problem(loss)
    for dtype in (torch.float16, torch.bfloat16):
        half = logits.to(dtype)
        torch.testing.assert_close(loss(half, labels), loss(half.float(), labels).to(dtype), rtol=0, atol=0)


@law()
def is_its_module(loss: Loss) -> None:
    """The module gives the function's value, holds the weight as a buffer, and prints its settings."""
    logits, labels = problem(loss)
    weight = class_weights()
    module = loss.build(weight=weight, ignore_index=1)
    assert torch.equal(module(logits, labels), loss(logits, labels, weight=weight, ignore_index=1))
    assert torch.equal(module.state_dict()["weight"], weight)
    assert "ignore_index=1" in repr(module)
    for name, setting in (loss.options if loss.settings is None else loss.settings).items():
        assert f"{name}={setting!r}" in repr(module)


@law(soft=True)
def is_its_module_with_soft_targets(loss: Loss) -> None:
    """A module whose function takes ``targets`` takes them too."""
    logits, _ = problem(loss)
    targets = torch.softmax(logits.flip(1), 1)
    assert torch.equal(loss.build()(logits, targets=targets), loss(logits, None, targets=targets))


@law(soft=False)
def refuses_soft_targets(loss: Loss) -> None:
    """A module whose function takes none says so, and what to pass instead."""
    logits, _ = problem(loss)
    targets = torch.softmax(logits.flip(1), 1)
    with pytest.raises(TypeError, match=rf"^{loss.module.__name__} takes no `targets`; pass .*`labels`"):
        loss.build()(logits, targets=targets)


@law(batch=False)
def passes_its_reduction_on(loss: Loss) -> None:
    logits, labels = problem(loss)
    module = loss.build(reduction="none")
    assert torch.equal(module(logits, labels), loss(logits, labels, reduction="none"))
    assert "reduction='none'" in repr(module)


@law()
def takes_settings_by_name_only(loss: Loss) -> None:
    """A setting without a name, or with an unknown one, gets a sentence with the names that there are."""
    with pytest.raises(
        TypeError, match=r"must be given its settings by name, as \w+=\.\.\.; got 2\.0 without"
    ):
        loss.module(2.0)
    logits, labels = problem(loss)
    for call in (loss.module, partial(loss, logits, labels)):
        with pytest.raises(TypeError, match=r"'reductoin'; did you mean 'reduction'\?$"):
            call(reductoin="sum")
        with pytest.raises(TypeError, match=r"'weights'; did you mean 'weight'\?$"):
            call(weights=None)
    with pytest.raises(TypeError, match=r"has no setting 'odd'; it has .*weight, ignore_index, reduction\.$"):
        loss.module(odd=2.0)
    with pytest.raises(TypeError, match=r"'target'; did you mean 'labels'\?$"):
        loss.module()(logits, target=labels)
