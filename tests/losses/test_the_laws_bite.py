"""Faults planted in losses: every law catches at least one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import laws_losses_arguments as arguments
import laws_losses_derivatives as derivatives
from calibrant import losses
from laws_losses import LAWS
from rosters_losses import LOSSES, Loss

assert arguments
assert derivatives  # they enter their laws

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:`torch\.jit\.script(_method)?` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

Change = Callable[..., Tensor]
BROKEN = (AssertionError, RuntimeError, TypeError, ValueError, IndexError, pytest.fail.Exception)
NAMED = {loss.name: loss for loss in LOSSES}
FOCAL, MMCE, LABELS = NAMED["focal_half"], NAMED["mmce"], NAMED["multilabel_focal"]


def _times(factor: float) -> Change:
    return lambda function, *tensors, **more: factor * function(*tensors, **more)


def _without(name: str) -> Change:
    def change(function: Any, *tensors: Any, **more: Any) -> Tensor:
        more.pop(name, None)
        return function(*tensors, **more)

    return change


def _plus(term: Callable[[Tensor], Tensor]) -> Change:
    return lambda function, logits, labels, **more: function(logits, labels, **more) + term(logits)


def _then(finish: Callable[[Tensor], Tensor]) -> Change:
    return lambda function, *tensors, **more: finish(function(*tensors, **more))


def _true(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.softmax(logits, 1)[torch.arange(len(labels)), labels]


def _without_the_factor_s_gradient(_: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    true = _true(logits, labels)
    values = (1 - true.detach()) ** more["gamma"] * -true.log()
    return values.mean() if more.get("weight") is None else (values * more["weight"][labels]).mean()


def _clamped(_: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    true = _true(logits.float(), labels)
    return ((1 - true) ** 0.5 * -true.log()).mean().to(logits.dtype)


def _of_the_next_class(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    return function(logits, (labels + 1) % logits.shape[1], **more)


def _mean_over_entries(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    value = function(logits, labels, **more)
    return value / logits.shape[1] if more.get("reduction", "mean") == "mean" else value


def _mean_over_samples(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    if more.get("reduction", "mean") != "mean":
        return function(logits, labels, **more)
    return function(logits, labels, **{**more, "reduction": "none"}).mean()


def _sum_for_mean(function: Any, *tensors: Any, **more: Any) -> Tensor:
    reduction = more.pop("reduction", "mean")
    return function(*tensors, **more, reduction="sum" if reduction == "mean" else reduction)


def _weights_turned_round(function: Any, *tensors: Any, **more: Any) -> Tensor:
    if more.get("weight") is not None:
        more["weight"] = 1 / more["weight"]
    return function(*tensors, **more)


def _ignored_counted(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    ignore_index = more.pop("ignore_index", -100)
    return function(logits, torch.where(labels == ignore_index, 0, labels), **more)


def _wrong_taken_for_right(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    known = (labels >= 0) & (labels < logits.shape[1])
    return function(logits, torch.where(known | (labels == -100), labels, 0), **more)


def _flattened_wrongly(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    if logits.ndim > 2:
        logits, labels = logits.reshape(-1, logits.shape[1]), labels.reshape(-1)
    return function(logits, labels, **more)


def _without_its_shape(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    value = function(logits, labels, **more)
    return value.reshape(-1) if value.ndim else value


def _hardened(function: Any, logits: Tensor, labels: Tensor | None, **more: Any) -> Tensor:
    if "targets" in more:
        labels = more.pop("targets").argmax(1)
    return function(logits, labels, **more)


def _distance_to_the_labels(function: Any, logits: Tensor, labels: Tensor | None, **more: Any) -> Tensor:
    if "targets" not in more:
        return function(logits, labels, **more)
    targets = more.pop("targets")
    values = [function(logits, torch.full((len(logits),), k), **more) for k in range(logits.shape[1])]
    return (targets * torch.stack(values, 1)).sum(1)


def _narrow_labels_misread(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    return function(logits, labels if labels.dtype == torch.int64 else 0 * labels, **more)


def _in_half(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    half = logits.dtype in (torch.float16, torch.bfloat16)
    return _clamped(function, logits, labels, **more) * (1 + 2**-6 if half else 1)


def _any_reduction(function: Any, *tensors: Any, **more: Any) -> Tensor:
    return function(*tensors, **{**more, "reduction": "mean"})


class _Spoils(torch.autograd.Function):
    """Passes on, but not twice: what the backward pass needs is used up by it. No transform knows it."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        ctx.scale = torch.ones(())
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        scale = ctx.scale.item()
        ctx.scale.mul_(2)
        return float(grads[0].sum()) * scale * torch.ones_like(grads[0]) / grads[0].numel()


class _Once(torch.autograd.Function):
    """Passes on, with a gradient that passes for constant."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        del ctx
        return value.clone()

    @staticmethod
    def backward(_ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0].detach()


def _on_logits(function_class: Any) -> Change:
    return lambda function, logits, labels, **more: function(function_class.apply(logits), labels, **more)


def _looks(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    return function(logits, labels, **more) * (1.0 if logits.sum().item() < 1e9 else 2.0)


def _looks_at_labels(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    return function(logits, labels, **more) * (1.0 if int(labels.max()) < 100 else 2.0)


def _writes_into_its_logits(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    value = function(logits, labels, **more)
    logits.data.add_(1e-9)
    return value


def _other_when_compiled(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    value = function(logits, labels, **more)
    return 2 * value if torch.compiler.is_compiling() else value


def _capture_broken(function: Any, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    torch._dynamo.graph_break()
    return function(logits, labels, **more)


class _Half(losses.FocalLoss):
    def forward(
        self, logits: Tensor, labels: Tensor | None = None, *, targets: Tensor | None = None
    ) -> Tensor:
        """With the default exponent, and without weights."""
        return losses.focal_loss(logits, labels, targets=targets, ignore_index=self.ignore_index)


def _with_any_setting(*_: Any, **__: Any) -> losses.FocalLoss:
    return losses.FocalLoss()


def faulty(loss: Loss, fault: Change | dict[str, Any]) -> Loss:
    """The loss with another function, ``change(function, logits, labels, **options)``, or other fields."""
    if isinstance(fault, dict):
        return replace(loss, **fault)
    return replace(loss, function=lambda *tensors, **more: fault(loss.function, *tensors, **more))


FAULTS: list[tuple[str, Loss, Change | dict[str, Any]]] = [
    ("has_its_hand_value", FOCAL, _times(-1)),
    ("has_its_hand_value", FOCAL, _mean_over_entries),
    ("has_its_hand_value", NAMED["sample_focal"], _sum_for_mean),
    ("has_the_value_of_its_formula", FOCAL, _times(1 + 1e-8)),
    ("has_the_value_of_its_formula", FOCAL, _of_the_next_class),
    ("has_the_value_of_its_formula", MMCE, _times(1 + 1e-8)),
    ("has_the_gradient_of_its_formula", FOCAL, _without_the_factor_s_gradient),
    ("has_the_gradient_of_its_formula", FOCAL, _plus(lambda z: 1e-6 * torch.softmax(z, 1)[:, 0].sum())),
    ("survives_extreme_logits", FOCAL, _clamped),
    ("survives_extreme_logits", FOCAL, _times(-1)),
    ("ignores_a_shift", FOCAL, _plus(lambda z: 1e-6 * z.sum())),
    ("ignores_the_names_of_classes", FOCAL, _plus(lambda z: 1e-6 * torch.softmax(z, 1)[:, 0].sum())),
    ("ignores_the_names_of_classes", LABELS, _plus(lambda z: 1e-6 * z.sigmoid()[:, 0].sum())),
    ("ignores_the_order_of_samples", FOCAL, _plus(lambda z: 1e-6 * torch.softmax(z, 1)[0].max())),
    ("asks_for_the_truth", NAMED["cross_entropy"], _plus(lambda z: 0.05 * torch.softmax(z, 1)[:, 0])),
    ("leaves_ignored_samples_out", FOCAL, _mean_over_samples),
    ("leaves_ignored_samples_out", FOCAL, _ignored_counted),
    ("leaves_ignored_samples_out", MMCE, _ignored_counted),
    ("leaves_ignored_samples_out", LABELS, _ignored_counted),
    ("is_nan_where_nothing_counts", FOCAL, _ignored_counted),
    ("is_nan_where_nothing_counts", FOCAL, _then(torch.nan_to_num)),
    ("is_nan_for_no_samples", FOCAL, _then(torch.nan_to_num)),
    ("adds_up_to_nothing_for_no_samples", FOCAL, _then(lambda value: value + 1)),
    ("lets_nan_through", FOCAL, _then(torch.nan_to_num)),
    ("takes_masked_classes", FOCAL, _plus(lambda z: torch.softmax(z, 1).mean())),
    ("takes_masked_classes", FOCAL, _plus(lambda z: 0 * z.sum())),
    ("takes_masked_classes", NAMED["margin_label_smoothing"], _plus(lambda z: torch.softmax(z, 1).mean())),
    ("takes_rows_with_one_class_left", FOCAL, _plus(lambda z: 0 * z.sum())),
    ("takes_rows_with_one_class_left", FOCAL, _plus(lambda z: torch.softmax(z, 1)[:, 0])),
    ("takes_masked_classes_without_a_share", FOCAL, _plus(lambda z: 0 * z.sum())),
    ("names_a_wrong_label", FOCAL, _wrong_taken_for_right),
    ("multiplies_by_the_class_weight", FOCAL, _without("weight")),
    ("multiplies_by_the_class_weight", FOCAL, _weights_turned_round),
    ("multiplies_by_the_class_weight", LABELS, _weights_turned_round),
    ("divides_by_the_class_weights", FOCAL, _mean_over_samples),
    ("divides_by_the_class_weights", LABELS, _mean_over_samples),
    ("reduces_as_cross_entropy", FOCAL, _mean_over_entries),
    ("reduces_as_cross_entropy", FOCAL, _sum_for_mean),
    ("reduces_as_cross_entropy", FOCAL, _without("reduction")),
    ("has_a_mean_only", MMCE, _any_reduction),
    ("takes_more_dimensions", FOCAL, _flattened_wrongly),
    ("has_a_value_per_position", FOCAL, _without_its_shape),
    ("becomes_cross_entropy", FOCAL, _then(lambda value: value * (1 + 2 * torch.finfo(value.dtype).eps))),
    ("becomes_cross_entropy", LABELS, _times(1 + 1e-6)),
    ("takes_soft_targets", FOCAL, _sum_for_mean),
    ("is_its_expectation_under_soft_targets", FOCAL, _hardened),
    ("is_its_expectation_under_soft_targets", FOCAL, _weights_turned_round),
    ("measures_the_distance_to_soft_targets", NAMED["brier"], _distance_to_the_labels),
    ("takes_labels_of_any_integer_type", FOCAL, _narrow_labels_misread),
    ("is_single_under_autocast", FOCAL, _then(torch.Tensor.bfloat16)),
    ("is_computed_in_single", FOCAL, _in_half),
    ("is_its_module", FOCAL, {"module": _Half}),
    ("is_its_module_with_soft_targets", FOCAL, {"module": _Half}),
    ("refuses_soft_targets", MMCE, {"module": _Half}),
    ("passes_its_reduction_on", FOCAL, {"module": _Half}),
    ("takes_settings_by_name_only", FOCAL, {"module": _with_any_setting}),
    ("has_the_gradient_of_finite_differences", FOCAL, _without_the_factor_s_gradient),
    ("has_the_curvature_of_finite_differences", FOCAL, _plus(lambda z: (z * z.detach()).sum())),
    ("keeps_its_graph", FOCAL, _on_logits(_Spoils)),
    ("has_one_gradient_with_and_without_a_graph", FOCAL, _on_logits(_Once)),
    ("has_its_gradient_by_func_grad", FOCAL, _on_logits(_Once)),
    ("has_its_gradient_by_forward_mode", FOCAL, _on_logits(_Once)),
    ("has_one_hessian", FOCAL, _on_logits(_Once)),
    ("maps_over_models", FOCAL, _looks),
    ("maps_over_labels", FOCAL, _looks_at_labels),
    ("has_gradients_per_sample", FOCAL, _looks),
    ("has_many_gradients_at_once", FOCAL, _on_logits(_Spoils)),
    ("is_captured", FOCAL, _other_when_compiled),
    ("is_captured", FOCAL, _capture_broken),
    ("looks_at_no_value", FOCAL, _looks),
    ("leaves_its_inputs_alone", FOCAL, _writes_into_its_logits),
]


@pytest.mark.parametrize(
    ("name", "entry", "fault"), FAULTS, ids=[f"{name}-{place}" for place, (name, *_) in enumerate(FAULTS)]
)
def test_the_laws_bite(name: str, entry: Loss, fault: Change | dict[str, Any]) -> None:
    assert LAWS[name].holds_for(entry)  # which the contract tests
    with pytest.raises(BROKEN, match=r"(?s).*"):
        LAWS[name].check(faulty(entry, fault))


def test_no_law_goes_without_a_fault() -> None:
    assert {name for name, *_ in FAULTS} == set(LAWS)
