"""Metrics of a network on a split after an epoch, and the dynamics plotted by Mukhoti et al. (2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from calibrant import metrics
from calibrant._math.errors import without_warnings
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import TemperatureScaling
from calibrant_lab.models import last_linear
from calibrant_lab.training.samples import Inference

SNAPSHOT_BINS = 25


def dynamics_of(
    logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"], *, num_bins: int
) -> dict[str, float | None]:
    """Return error, ECE, and NLL, entropy and true-class probability by correctness.

    A mean over no samples, or one that is not finite, is None.
    """
    log_probs = logits.double().log_softmax(dim=1)
    probs = log_probs.exp()
    true = log_probs.gather(1, labels[:, None])[:, 0]
    right = probs.argmax(dim=1) == labels
    each = {"nll": -true, "entropy": -(probs * log_probs.clamp(min=-1e4)).sum(dim=1), "p_true": true.exp()}
    found = {
        "error": float((~right).double().mean()),
        "ece": float(metrics.expected_calibration_error(probs, labels, num_bins=num_bins)),
    }
    for name, values in each.items():
        found[name] = float(values.mean())
        found[f"{name}_correct"] = float(values[right].mean())
        found[f"{name}_incorrect"] = float(values[~right].mean())
    return finite_or_none(found)


def finite_or_none(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def bins_of(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, Tensor]:
    """Return counts, mean confidence and accuracy of 25 equal-width bins; NaN for empty ones."""
    probs = logits.double().softmax(dim=1)
    table = metrics.reliability_table(probs, labels, num_bins=SNAPSHOT_BINS)
    columns = {"counts": table.counts, "confidence": table.confidence, "accuracy": table.accuracy}
    return {
        name: torch.tensor([math.nan if value is None else value for value in values], dtype=torch.float64)
        for name, values in columns.items()
    }


def quarters(epochs: int) -> tuple[int, ...]:
    """Return four evenly spaced epochs, the last one included."""
    return tuple(sorted({max(1, round(epochs * quarter / 4)) for quarter in (1, 2, 3, 4)}))


def epoch_metrics(
    logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"], *, num_bins: int
) -> dict[str, float | None]:
    """Return held-out dynamics, the best temperature and the NLL after it; None if not finite."""
    with without_warnings():  # while the network still learns, a temperature on its bound is no news
        fit = TemperatureScaling().fit(logits, labels).fit_result_
    temperature = fit.parameters["temperature"]
    values = {
        "accuracy": float(metrics.accuracy(logits.double().softmax(dim=1), labels)),
        "nll": float(fit.before),
        "temperature": temperature if isinstance(temperature, float) else math.nan,
        "nll_after_temperature": float(fit.after),
    }
    return {**dynamics_of(logits, labels, num_bins=num_bins), **finite_or_none(values)}


def top_labels(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> tuple[Tensor, Tensor]:
    """Return float64 confidences and correctness."""
    confidences, predictions = logits.double().softmax(dim=1).max(dim=1)
    return confidences, torch.eq(predictions, labels)


def right_answers(logits: Tensor, labels: Tensor) -> Tensor:
    """Return each sample's correctness; for several labels, the share of right ones."""
    if labels.ndim == 1:
        return (logits.argmax(dim=1) == labels).double()
    return ((logits > 0) == (labels == 1)).double().mean(dim=1)


def multilabel_epoch_metrics(
    logits: Float[Tensor, "N C"], labels: Int[Tensor, "N C"], *, num_bins: int
) -> dict[str, float | list[float] | None]:
    """Return label means of NLL, AUROC and calibration error, and each label's error.

    The accuracy is the share of right answers, all labels together. The AUROC is that of labels of which
    both answers occur. ``nll_after_temperature`` is that with a temperature for each label.
    """
    probs = logits.double().sigmoid()
    with without_warnings():  # rare labels, and a network that still learns, are no news
        fit = TemperatureScaling().fit(logits, labels).fit_result_
        areas = [float(each) for each in metrics.auroc(probs, labels, average="none") if each is not None]
    errors = [
        float(metrics.expected_calibration_error(told, came, num_bins=num_bins))
        for told, came in zip(probs.unbind(1), labels.unbind(1), strict=True)
    ]
    values = {
        "accuracy": float(right_answers(logits, labels).mean()),
        "nll": float(fit.before),
        "ece": sum(errors) / len(errors),
        "temperature": math.nan,  # there is one for each label
        "nll_after_temperature": float(fit.after),
        "auroc": sum(areas) / len(areas) if areas else math.nan,
    }
    return {**finite_or_none(values), "ece_by_label": errors}


def last_layer_gradient_norms(inference: Inference, loss: nn.Module, name: str) -> Float[Tensor, " N"] | None:
    """Return each sample's gradient norm in the last layer; None if that is not linear.

    It is the norm of the gradient by the logits times that of the layer's input (with a one for the bias), so
    no sample needs its own backward pass.
    """
    layer = last_linear(inference.model)
    seen: dict[str, Tensor] = {}
    if layer is None:
        return None
    bias = float("bias" in dict(layer.named_parameters()))

    def look(_layer: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
        seen["input"], seen["output"] = given[0], made

    def norms_of(inputs: Tensor, labels: Tensor) -> Tensor:
        logits = inference.run(inputs)
        if seen["output"].shape != logits.shape or not torch.equal(seen["output"].to(logits), logits):
            return torch.full((len(labels), 1), math.nan, device=logits.device)
        leaf = logits.detach().requires_grad_()
        (slopes,) = torch.autograd.grad(loss(leaf, labels) * len(labels), leaf)
        squares = seen["input"].double().square().sum(dim=1) + bias
        return (slopes.double().norm(dim=1) * squares.sqrt())[:, None].float()

    handle = layer.register_forward_hook(look)
    try:
        norms = inference.over(name, norms_of, width=1)[:, 0]
    finally:
        handle.remove()
    return None if bool(norms.isnan().any()) else norms
