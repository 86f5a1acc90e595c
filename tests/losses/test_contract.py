"""The laws that every loss obeys, over the roster; and faults that each of them must catch.

A law is a function of a loss that asserts, so that it can be run against a faulty one too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

CLOSED = {"rtol": 1e-12, "atol": 1e-12}
OTHER = {"rtol": 1e-10, "atol": 1e-10}
SINGLE = {"rtol": 1e-5, "atol": 1e-5}


def problem(
    loss: Any, *, num_samples: int = 24, num_classes: int = 5, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Logits and labels: right and wrong, sure and unsure."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    if loss.multilabel:
        return logits, torch.randint(2, (num_samples, num_classes), generator=generator)
    # Half of them as predicted, half at random.
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    labels[::2] = logits.argmax(1)[::2]
    return logits, labels


def value_and_gradient(loss: Any, logits: Tensor, labels: Tensor, **more: Any) -> tuple[Tensor, Tensor]:
    """The loss, and the gradient of its sum."""
    leaf = logits.detach().clone().requires_grad_()
    value = loss(leaf, labels, **more)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def torch_weight(num_classes: int = 5) -> Tensor:
    """Weights of the classes."""
    return torch.linspace(0.5, 2.0, num_classes, dtype=torch.float64)


# ------------------------------------------------------------------------------------------------- the laws


def has_its_hand_value(loss: Any) -> None:
    """The value worked out by hand."""
    probs, labels, expected = loss.hand
    probs = torch.tensor(probs, dtype=torch.float64)
    logits = probs.logit() if loss.multilabel else probs.log()
    torch.testing.assert_close(
        loss(logits, torch.tensor(labels)), torch.tensor(float(expected), dtype=torch.float64), **CLOSED
    )


def agrees_with_the_formula(loss: Any) -> None:
    """Value and gradient of the naive formula."""
    logits, labels = problem(loss)
    leaf = logits.clone().requires_grad_(not loss.solved)
    expected = loss.reference(leaf, labels).mean()
    value, gradient = value_and_gradient(loss, logits, labels)
    torch.testing.assert_close(value, expected.detach(), **OTHER)
    if not loss.solved:
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, leaf)[0], **OTHER)


def survives_extreme_logits(loss: Any) -> None:
    """Finite, of the right type and not negative."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for num_classes in (2, 3, 200):
            logits = torch.zeros(6, num_classes, dtype=dtype)
            logits[0, 0], logits[1, 0], logits[2, 1], logits[3, 1] = 1e4, -1e4, 1e4, -1e4
            logits[4, 0], logits[4, 1] = 1e4, -1e4
            logits[5, :] = -1e4
            labels = torch.zeros(6, dtype=torch.int64)
            if loss.multilabel:
                labels = torch.zeros_like(logits, dtype=torch.int64)
                labels[:, 0] = 1
            value, gradient = value_and_gradient(loss, logits, labels)
            assert value.dtype == gradient.dtype == dtype
            assert value.isfinite()
            assert gradient.isfinite().all()
            assert value >= 0


def ignores_a_shift(loss: Any) -> None:
    """A constant added to a row changes nothing."""
    logits, labels = problem(loss)
    shifts = torch.linspace(-50, 50, len(logits), dtype=torch.float64).unsqueeze(1)
    value, gradient = value_and_gradient(loss, logits, labels)
    shifted_value, shifted_gradient = value_and_gradient(loss, logits + shifts, labels)
    torch.testing.assert_close(shifted_value, value, **OTHER)
    torch.testing.assert_close(shifted_gradient, gradient, **OTHER)
    torch.testing.assert_close(gradient.sum(1), torch.zeros(len(gradient), dtype=torch.float64), **OTHER)


def ignores_the_names_of_classes(loss: Any) -> None:
    """Renaming the classes renames the gradient."""
    logits, labels = problem(loss)
    order = torch.tensor([3, 0, 4, 1, 2])
    renamed = labels[:, order] if loss.multilabel else order.argsort()[labels]
    value, gradient = value_and_gradient(loss, logits, labels)
    renamed_value, renamed_gradient = value_and_gradient(loss, logits[:, order], renamed)
    torch.testing.assert_close(renamed_value, value, **CLOSED)
    torch.testing.assert_close(renamed_gradient, gradient[:, order], **CLOSED)


def ignores_the_order_of_samples(loss: Any) -> None:
    """Reordering the samples reorders the gradient."""
    logits, labels = problem(loss)
    logits[3] = logits[7]  # with a tie
    labels[3] = labels[7]
    order = torch.randperm(len(logits), generator=torch.Generator().manual_seed(1))
    value, gradient = value_and_gradient(loss, logits, labels)
    other_value, other_gradient = value_and_gradient(loss, logits[order], labels[order])
    torch.testing.assert_close(other_value, value, **CLOSED)
    torch.testing.assert_close(other_gradient, gradient[order], **CLOSED)


def leaves_ignored_samples_out(loss: Any) -> None:
    """Ignored is as good as absent."""
    logits, labels = problem(loss)
    weight = torch_weight()
    if loss.multilabel:
        _leaves_ignored_entries_out(loss, logits, labels, weight)
        return
    for ignore_index in (-100, -1, 2):
        marked = labels.clone()
        marked[1::3] = ignore_index
        kept = marked != ignore_index
        more = {"ignore_index": ignore_index, "weight": weight}
        value, gradient = value_and_gradient(loss, logits, marked, **more)
        subset = loss(logits[kept], labels[kept], weight=weight)
        torch.testing.assert_close(value, subset, **CLOSED)
        assert (gradient[~kept] == 0).all()
        poisoned = logits.clone()
        poisoned[~kept] = math.nan
        torch.testing.assert_close(loss(poisoned, marked, **more), subset, **CLOSED)


def _leaves_ignored_entries_out(loss: Any, logits: Tensor, labels: Tensor, weight: Tensor) -> None:
    marked = labels.clone()
    marked[1::3, 2] = -100
    kept = marked != -100
    poisoned = logits.clone()
    poisoned[~kept] = math.nan
    values = loss(poisoned, marked, weight=weight, reduction="none")
    alone = loss(logits, labels, weight=weight, reduction="none")
    torch.testing.assert_close(values, alone * kept, **CLOSED)
    expected = alone[kept].sum() / weight.expand_as(logits)[kept].sum()
    torch.testing.assert_close(loss(poisoned, marked, weight=weight), expected, **CLOSED)


def weighs_by_class(loss: Any) -> None:
    """Weights multiply, and the mean divides by them."""
    logits, labels = problem(loss)
    weight = torch_weight()
    plain = loss(logits, labels, reduction="none")
    share = weight.expand_as(logits) if loss.multilabel else weight[labels]
    weighted = loss(logits, labels, weight=weight, reduction="none")
    if "smoothing" not in loss.options:  # there each class's part of the label has its own weight
        torch.testing.assert_close(weighted, plain * share, **CLOSED)
    for reduction, expected in (("sum", weighted.sum()), ("mean", weighted.sum() / share.sum())):
        torch.testing.assert_close(
            loss(logits, labels, weight=weight, reduction=reduction), expected, **CLOSED
        )


def reduces_as_cross_entropy(loss: Any) -> None:
    """None, sum and mean fit together."""
    logits, labels = problem(loss)
    values = loss(logits, labels, reduction="none")
    assert values.shape == labels.shape
    torch.testing.assert_close(loss(logits, labels, reduction="sum"), values.sum(), **CLOSED)
    torch.testing.assert_close(loss(logits, labels, reduction="mean"), values.mean(), **CLOSED)
    torch.testing.assert_close(loss(logits, labels), values.mean(), **CLOSED)


def takes_more_dimensions(loss: Any) -> None:
    """(N, C, d1, d2) is so many rows."""
    logits, labels = problem(loss)
    value, gradient = value_and_gradient(loss, logits, labels)
    shaped = logits.reshape(4, 3, 2, 5).movedim(-1, 1)
    shaped_labels = labels.reshape(4, 3, 2, 5).movedim(-1, 1) if loss.multilabel else labels.reshape(4, 3, 2)
    shaped_value, shaped_gradient = value_and_gradient(loss, shaped, shaped_labels)
    torch.testing.assert_close(shaped_value, value, **CLOSED)
    torch.testing.assert_close(shaped_gradient.movedim(1, -1).reshape(24, 5), gradient, **CLOSED)
    weight = torch_weight()
    torch.testing.assert_close(
        loss(shaped, shaped_labels, weight=weight), loss(logits, labels, weight=weight), **CLOSED
    )
    if not loss.batch:
        assert loss(shaped, shaped_labels, reduction="none").shape == shaped_labels.shape
        # One sample without a dimension for it.
        alone = loss(logits[0], labels[0], reduction="none")
        torch.testing.assert_close(alone, loss(logits[:1], labels[:1], reduction="none")[0], **CLOSED)


def becomes_cross_entropy(loss: Any) -> None:
    """The limiting case is torch's cross-entropy."""
    logits, labels = problem(loss)
    for dtype in (torch.float64, torch.float32):
        scores, weight = logits.to(dtype), torch_weight().to(dtype)
        if loss.multilabel:
            expected = functional.binary_cross_entropy_with_logits(scores, labels.to(dtype))
            torch.testing.assert_close(
                loss(scores, labels, **loss.limit), expected, **(OTHER if dtype == torch.float64 else SINGLE)
            )
            continue
        value, gradient = value_and_gradient(
            loss, scores, labels, **loss.limit, weight=weight, ignore_index=1
        )
        leaf = scores.clone().requires_grad_()
        expected = functional.cross_entropy(leaf, labels, weight=weight, ignore_index=1)
        assert torch.equal(value, expected.detach())  # to the last bit
        assert torch.equal(gradient, torch.autograd.grad(expected, leaf)[0])


def is_the_expectation_under_soft_targets(loss: Any) -> None:
    """Targets are weights of labels."""
    logits, _ = problem(loss)
    targets = torch.softmax(torch.randn(24, 5, generator=torch.Generator().manual_seed(3)).double(), 1)
    weight = torch_weight()
    for more in ({}, {"weight": weight}):
        per_class = torch.stack(
            [loss(logits, torch.full((24,), k), reduction="none", **more) for k in range(5)], dim=1
        )
        expected = (targets * per_class).sum(1)
        values = loss(logits, None, targets=targets, reduction="none", **more)
        if loss.name in {"brier", "focal_calibration", "focal_calibration_l1"}:
            # The distance is to the targets, not the mean of the distances to the labels.
            expected = expected - _distance_by_label(loss, logits, targets, more.get("weight"))
        torch.testing.assert_close(values, expected, **OTHER)
        torch.testing.assert_close(loss(logits, None, targets=targets, **more), values.mean(), **CLOSED)
        torch.testing.assert_close(
            loss(logits, None, targets=targets, reduction="sum", **more), values.sum(), **CLOSED
        )
    hot = functional.one_hot(torch.arange(24) % 5, 5).double()
    torch.testing.assert_close(loss(logits, None, targets=hot), loss(logits, torch.arange(24) % 5), **CLOSED)


def _distance_by_label(loss: Any, logits: Tensor, targets: Tensor, weight: Tensor | None) -> Tensor:
    """By how much the mean distance to the labels exceeds the distance to their mean."""
    order = 1 if loss.options.get("norm") == "l1" else 2
    probs, hot = torch.softmax(logits, 1), torch.eye(5, dtype=torch.float64)
    to_labels = ((probs.unsqueeze(1) - hot).abs() ** order).sum(2)  # (24, 5)
    to_targets = ((probs - targets).abs() ** order).sum(1)
    shares = targets if weight is None else targets * weight
    excess = (shares * to_labels).sum(1) - shares.sum(1) * to_targets
    return excess * loss.options.get("calibration_weight", 1.0)


LAWS: dict[str, tuple[str, Callable[[Any], None]]] = {
    law.__name__: (kind, law)
    for kind, law in (
        ("loss", has_its_hand_value),
        ("loss", agrees_with_the_formula),
        ("loss", survives_extreme_logits),
        ("class_loss", ignores_a_shift),
        ("loss", ignores_the_names_of_classes),
        ("loss", ignores_the_order_of_samples),
        ("loss", leaves_ignored_samples_out),
        ("sample_loss", weighs_by_class),
        ("sample_loss", reduces_as_cross_entropy),
        ("loss", takes_more_dimensions),
        ("limited_loss", becomes_cross_entropy),
        ("soft_loss", is_the_expectation_under_soft_targets),
    )
}


# ------------------------------------------------------------------------------------------------ the tests


def test_hand_value(loss: Any) -> None:
    """Each loss has the value worked out by hand."""
    has_its_hand_value(loss)


def test_formula(loss: Any) -> None:
    """Value and gradient are those of an independent, naive implementation."""
    agrees_with_the_formula(loss)


def test_extreme_logits(loss: Any) -> None:
    """Values and gradients are finite at |logit| = 1e4 in float32, float16, bfloat16, and keep the type."""
    survives_extreme_logits(loss)


def test_shift(class_loss: Any) -> None:
    """A constant added to a row changes nothing, and gradients sum to zero over the classes."""
    ignores_a_shift(class_loss)


def test_class_names(loss: Any) -> None:
    """Renaming the classes renames the gradient and changes nothing else."""
    ignores_the_names_of_classes(loss)


def test_sample_order(loss: Any) -> None:
    """The order of the samples does not matter, ties among them included."""
    ignores_the_order_of_samples(loss)


def test_ignore_index(loss: Any) -> None:
    """Ignored samples are as good as absent, whatever their logits."""
    leaves_ignored_samples_out(loss)


def test_weight(sample_loss: Any) -> None:
    """Class weights multiply the values, and the mean divides by them."""
    weighs_by_class(sample_loss)


def test_reduction(sample_loss: Any) -> None:
    """``"none"`` has a value per sample; ``"sum"`` and ``"mean"`` are its sum and mean."""
    reduces_as_cross_entropy(sample_loss)


def test_more_dimensions(loss: Any) -> None:
    """(N, C, d1, d2) is as many samples in rows, and (C,) is one sample."""
    takes_more_dimensions(loss)


def test_limit(limited_loss: Any) -> None:
    """The limiting case is cross-entropy, to the last bit (with several labels: to rounding)."""
    becomes_cross_entropy(limited_loss)


def test_soft_targets(soft_loss: Any) -> None:
    """Under soft targets a loss is its expectation; distances are to the targets."""
    is_the_expectation_under_soft_targets(soft_loss)


def test_gradient_is_the_derivative(loss: Any) -> None:
    """Gradients agree with finite differences in float64."""
    logits, labels = problem(loss, num_samples=6, num_classes=4)
    weight = torch_weight(4)
    leaf = logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, labels, weight=weight), leaf)


def test_second_derivative(twice_loss: Any) -> None:
    """Gradients can be differentiated, and their derivatives agree with finite differences in float64."""
    logits, labels = problem(twice_loss, num_samples=5, num_classes=3)
    weight = torch_weight(3)
    leaf = logits.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda z: twice_loss(z, labels, weight=weight), leaf)


def test_integer_types(loss: Any) -> None:
    """Labels of any integer type are taken."""
    logits, labels = problem(loss)
    for dtype in (torch.int32, torch.int16, torch.uint8):
        torch.testing.assert_close(loss(logits, labels.to(dtype)), loss(logits, labels), **CLOSED)


def test_autocast(loss: Any) -> None:
    """Under autocast the loss of half-precision logits is float32, as cross-entropy's."""
    logits, labels = problem(loss)
    half = logits.bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(half, labels)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(half.float(), labels), **SINGLE)
    (gradient,) = torch.autograd.grad(value, half)
    assert gradient.dtype == torch.bfloat16


def test_half_precision_is_computed_in_single(loss: Any) -> None:
    """float16 and bfloat16 logits give the float32 result, rounded."""
    logits, labels = problem(loss)
    for dtype in (torch.float16, torch.bfloat16):
        half = logits.to(dtype)
        torch.testing.assert_close(loss(half, labels), loss(half.float(), labels).to(dtype), rtol=0, atol=0)


def test_looks_at_no_value(blind_loss: Any) -> None:
    """A tensor without data is enough: only shapes and types are looked at, so nothing synchronises."""
    logits, labels = problem(blind_loss)
    leaf = logits.to("meta").requires_grad_()
    options = {
        key: option.to("meta") if isinstance(option, Tensor) else option
        for key, option in blind_loss.options.items()
    }
    weight = torch_weight().to("meta")
    value = replace(blind_loss, options=options)(leaf, labels.to("meta"), weight=weight)
    assert value.shape == ()
    assert value.device.type == "meta"
    (gradient,) = torch.autograd.grad(value, leaf)
    assert gradient.shape == logits.shape


def test_inputs_are_left_alone(loss: Any) -> None:
    """Neither forward nor backward writes into logits or labels."""
    logits, labels = problem(loss, num_classes=5)
    before, labels_before = logits.clone(), labels.clone()
    leaf = logits.requires_grad_()
    loss(leaf, labels).backward()
    assert torch.equal(leaf.detach(), before)
    assert torch.equal(labels, labels_before)


def test_module_is_the_function(loss: Any) -> None:
    """The module gives the function's value, holds the weight as a buffer, and prints its settings."""
    logits, labels = problem(loss)
    weight = torch_weight()
    module = loss.build(weight=weight, ignore_index=1)
    assert torch.equal(module(logits, labels), loss(logits, labels, weight=weight, ignore_index=1))
    assert "weight" in module.state_dict()
    assert "ignore_index=1" in repr(module)
    for name, option in loss.options.items():
        if not isinstance(option, Tensor):
            assert f"{name}={option!r}" in repr(module)


def test_module_takes_soft_targets(soft_loss: Any) -> None:
    """A module whose function takes ``targets`` takes them too."""
    logits, _ = problem(soft_loss)
    targets = torch.softmax(logits.flip(1), 1)
    assert torch.equal(soft_loss.build()(logits, targets=targets), soft_loss(logits, None, targets=targets))


def test_module_reduction(sample_loss: Any) -> None:
    """A module passes its reduction on."""
    logits, labels = problem(sample_loss)
    module = sample_loss.build(reduction="none")
    assert torch.equal(module(logits, labels), sample_loss(logits, labels, reduction="none"))
    assert "reduction='none'" in repr(module)


def test_batch_losses_have_a_mean_only(batch_loss: Any) -> None:
    """A loss of the whole batch says that it has no value per sample."""
    logits, labels = problem(batch_loss)
    with pytest.raises(ValueError, match="`reduction` must be 'mean'"):
        batch_loss(logits, labels, reduction="sum")
    with pytest.raises(ValueError, match="`reduction` must be 'mean'"):
        batch_loss.build(reduction="none")


def test_all_ignored_is_nan_without_gradient(class_loss: Any) -> None:
    """A batch of which nothing counts gives NaN, and gradients of zero, as cross-entropy does."""
    logits, _ = problem(class_loss)
    labels = torch.full((len(logits),), -100)
    value, gradient = value_and_gradient(class_loss, logits, labels)
    assert value.isnan()
    if not class_loss.batch:
        assert (gradient == 0).all()


# ------------------------------------------------------------------------------------------ planted faults


def _faulty(change: Callable[..., Tensor]) -> Callable[[Any], Any]:
    """A loss whose function is replaced by ``change(function, logits, labels, **options)``."""

    def plant(loss: Any) -> Any:
        return replace(loss, function=lambda *tensors, **more: change(loss.function, *tensors, **more))

    return plant


def _times(factor: float) -> Callable[..., Tensor]:
    return lambda function, *tensors, **more: factor * function(*tensors, **more)


def _without(name: str) -> Callable[..., Tensor]:
    def change(function: Any, *tensors: Any, **more: Any) -> Tensor:
        more.pop(name, None)
        return function(*tensors, **more)

    return change


def _without_the_gate_s_gradient(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    probs = torch.softmax(logits, 1)[torch.arange(len(labels)), labels]
    return ((1 - probs.detach()) ** more["gamma"] * -probs.log()).mean()


def _clamped(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    probs = torch.softmax(logits.float(), 1)[torch.arange(len(labels)), labels]
    return ((1 - probs) ** 0.5 * -probs.log()).mean().to(logits.dtype)


def _unnormalised(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    return function(logits, labels, **more) + 1e-6 * logits.sum()


def _favours_a_class(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    return function(logits, labels, **more) + 1e-6 * torch.softmax(logits, 1)[:, 0].sum()


def _favours_a_row(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    return function(logits, labels, **more) + 1e-6 * torch.softmax(logits, 1)[0].max()


def _mean_over_entries(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    value = function(logits, labels, **more)
    return value / logits.shape[1] if more.get("reduction", "mean") == "mean" else value


def _mean_over_samples(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    if more.get("reduction", "mean") != "mean":
        return function(logits, labels, **more)
    return function(logits, labels, **{**more, "reduction": "none"}).mean()


def _flattened_wrongly(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    if logits.ndim > 2:
        logits, labels = logits.reshape(-1, logits.shape[1]), labels.reshape(-1)
    return function(logits, labels, **more)


def _ulp_off(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    return function(logits, labels, **more) * (1 + 2 * torch.finfo(logits.dtype).eps)


def _hardened(function: Any, logits: Tensor, labels: Tensor | None, **more: Any) -> Tensor:
    if "targets" in more:
        labels = more.pop("targets").argmax(1)
    return function(logits, labels, **more)


@pytest.mark.parametrize(
    ("law", "change"),
    [
        ("has_its_hand_value", _times(-1)),
        ("has_its_hand_value", _mean_over_entries),
        ("agrees_with_the_formula", _times(1 + 1e-8)),
        ("agrees_with_the_formula", _favours_a_class),
        ("agrees_with_the_formula", _without_the_gate_s_gradient),
        ("survives_extreme_logits", _clamped),
        ("ignores_a_shift", _unnormalised),
        ("ignores_the_names_of_classes", _favours_a_class),
        ("ignores_the_order_of_samples", _favours_a_row),
        ("leaves_ignored_samples_out", _mean_over_samples),
        ("weighs_by_class", _without("weight")),
        ("weighs_by_class", _mean_over_samples),
        ("reduces_as_cross_entropy", _mean_over_entries),
        ("reduces_as_cross_entropy", _without("reduction")),
        ("takes_more_dimensions", _flattened_wrongly),
        ("becomes_cross_entropy", _ulp_off),
        ("is_the_expectation_under_soft_targets", _hardened),
    ],
)
def test_the_laws_bite(law: str, change: Callable[..., Tensor], loss_named: Any) -> None:
    """Each law catches a fault planted in focal loss."""
    loss = loss_named("focal_half")
    LAWS[law][1](loss)
    with pytest.raises(AssertionError, match=r"(?s).+"):
        LAWS[law][1](_faulty(change)(loss))
