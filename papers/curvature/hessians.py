"""What the curvature study measures on a network: the Hessian of a loss, and what it is held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor, nn

from calibrant import metrics
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import TemperatureScaling
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.curvature import curvature_sizes, hessian_trace, top_eigenvalues
from calibrant.curvature.parametric_model import Mode
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.losses import focal_loss
from papers.curvature.settings import EIGEN_TOLERANCE, TRACE_PRODUCTS

MAX_PRODUCTS = 100
TRACE_METHOD: Final = "hutch++"
PROBES = 12
CONFIDENT = 0.9

Batch: TypeAlias = tuple[Tensor, Tensor]
RowLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The samples that a network's curvature and calibration are measured on."""

    train: Batch
    """The training samples that the Hessian is taken on."""
    test: Batch
    """The test samples that the Hessian is taken on."""
    calibration: Batch
    all_test: Batch


def focal(gamma: float) -> RowLoss:
    """Mean focal loss of a batch; cross-entropy for an exponent of zero."""
    return partial(focal_loss, gamma=gamma)


def along_the_way(model: nn.Module, gamma: float, samples: Measured) -> dict[str, Any]:
    """Curvature on training and test samples of the trained loss and of cross-entropy, and calibration."""
    found: dict[str, Any] = {}
    for split, batch in (("train", samples.train), ("test", samples.test)):
        plain = curvature(model, focal(0.0), batch)
        found[split] = {
            "own": curvature(model, focal(gamma), batch) if gamma else plain,
            "cross_entropy": plain,
            "accuracy": float((_logits(model, batch).argmax(1) == batch[1]).double().mean()),
        }
    logits, labels = _logits(model, samples.all_test), samples.all_test[1]
    probs = logits.softmax(1)
    found["ece"] = float(metrics.expected_calibration_error(probs, labels))
    found["nll"] = float(metrics.negative_log_likelihood(probs, labels))
    found["norm"] = float(torch.cat([each.detach().flatten() for each in model.parameters()]).double().norm())
    return found


def at_the_end(model: nn.Module, gamma: float, samples: Measured) -> dict[str, Any]:
    """Calibration before and after temperature scaling, and curvature in other units and parts."""
    losses = {"own": focal(gamma), "cross_entropy": focal(0.0)}
    normalised = any(isinstance(module, nn.BatchNorm1d) for module in model.modules())
    return {
        "calibration": calibration(model, samples),
        "parts": {
            split: {name: parts(model, loss, batch) for name, loss in losses.items()}
            for split, batch in (("train", samples.train), ("test", samples.test))
        },
        "jacobian": squared_jacobian(model, samples.train),
        "scaled": {name: scaled_trace(model, loss, samples.train) for name, loss in losses.items()},
        "noise": {name: gradient_noise(model, loss, samples.train) for name, loss in losses.items()},
        "batch_statistics": {
            name: curvature(model, loss, samples.train, mode="train") for name, loss in losses.items()
        }
        if normalised
        else None,
    }


def curvature(model: nn.Module, loss: RowLoss, batch: Batch, *, mode: Mode = "eval") -> dict[str, float]:
    """Largest eigenvalue with its residual, trace with its standard error, and the loss itself."""
    eigen = top_eigenvalues(
        model, loss, [batch], tolerance=EIGEN_TOLERANCE, max_products=MAX_PRODUCTS, mode=mode
    )
    trace = hessian_trace(model, loss, [batch], method=TRACE_METHOD, num_matvecs=TRACE_PRODUCTS, mode=mode)
    return {
        "loss": float(loss(_logits(model, batch), batch[1])),
        "lambda_max": eigen.values[0],
        "residual": eigen.residuals[0],
        "trace": trace.value,
        "trace_error": trace.standard_error,
    }


def calibration(model: nn.Module, samples: Measured) -> dict[str, Any]:
    """On all test samples, as the network states them and after a temperature fitted on held-out samples."""
    held_out = Labelled(_logits(model, samples.calibration), samples.calibration[1], None)
    scaling = fit_quietly(TemperatureScaling(), held_out)
    logits, labels = _logits(model, samples.all_test), samples.all_test[1]
    return {
        "before": judged(logits.softmax(1), labels),
        "after": judged(scaling.predict_proba(logits).double(), labels),
        "temperature": fitted_number(scaling.fit_result_, "temperature"),
    }


def judged(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, float]:
    """Calibration errors and their company, as fractions and nats.

    Example:
        >>> found = judged(torch.tensor([[0.9, 0.1], [0.2, 0.8]]).double(), torch.tensor([0, 0]))
        >>> round(found["overconfidence"], 3), found["error"]  # 0.85 stated, 0.5 right
        (0.35, 0.5)
    """
    confidence, stated = probs.max(1)
    return {
        "error": float((stated != labels).double().mean()),
        "nll": float(metrics.negative_log_likelihood(probs, labels)),
        "ece": float(metrics.expected_calibration_error(probs, labels)),
        "smce": float(metrics.smooth_calibration_error(probs, labels)),
        "overconfidence": float((confidence - (stated == labels).double()).mean()),
    }


def parts(model: nn.Module, loss: RowLoss, batch: Batch) -> dict[str, Any]:
    """The trace over confident samples and over the others, and how much the loss itself bends by logits."""
    inputs, labels = batch
    logits = _logits(model, batch)
    sure = logits.softmax(1).amax(1) > CONFIDENT
    found: dict[str, Any] = {"bend": float(bends(loss, logits, labels).mean())}
    for name, rows in (("confident", sure), ("others", ~sure)):
        count = int(rows.sum())
        some = [(inputs[rows], labels[rows])]
        trace = hessian_trace(model, loss, some, method=TRACE_METHOD, num_matvecs=PROBES) if count else None
        found[name] = {
            "count": count,
            "trace": trace.value if trace else None,
            "trace_error": trace.standard_error if trace else None,
        }
    return found


def bends(loss: RowLoss, logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Trace of each sample's matrix of second derivatives of the loss by its logits.

    Example:
        >>> bends(focal(0.0), torch.zeros(1, 2).double(), torch.tensor([0]))  # 2 p (1 - p)
        tensor([0.5000], dtype=torch.float64)
    """
    at = logits.detach().clone().requires_grad_()
    (slopes,) = torch.autograd.grad(loss(at, labels) * len(labels), at, create_graph=True)
    found = torch.zeros(len(labels), dtype=at.dtype)
    for column in range(at.shape[1]):
        (second,) = torch.autograd.grad(slopes[:, column].sum(), at, retain_graph=True)
        found += second[:, column]
    return found


def squared_jacobian(model: nn.Module, batch: Batch) -> dict[str, float]:
    """Mean over the samples of the squared Frobenius norm of the logits' derivatives by the parameters.

    It is the trace of the Gauss-Newton matrix of half the squared norm of the logits.
    """

    def half_square(logits: Tensor, _labels: Tensor) -> Tensor:
        return logits.square().sum(1).mean() / 2

    found = hessian_trace(
        model, half_square, [batch], method=TRACE_METHOD, num_matvecs=TRACE_PRODUCTS, matrix="gauss-newton"
    )
    return {"value": found.value, "error": found.standard_error}


def scaled_trace(model: nn.Module, loss: RowLoss, batch: Batch) -> dict[str, float]:
    r"""Trace of the Hessian in units in which every layer's parameters have norm one.

    .. math:: \sum_l \|\theta_l\|^2 \operatorname{Tr} H_{ll}

    Unlike the trace, it stays the same when one layer is scaled up and the next one down.
    """
    sizes = curvature_sizes(model, loss, [batch], num_matvecs=PROBES)
    squares = {
        name: sum(float(each.detach().double().square().sum()) for each in module.parameters(recurse=False))
        for name, module in model.named_modules()
    }
    errors = [(squares[name] * each.standard_error) ** 2 for name, each in sizes.layer_traces.items()]
    return {
        "value": sum(squares[name] * each.value for name, each in sizes.layer_traces.items()),
        "error": sum(errors) ** 0.5,
        "frobenius": sizes.frobenius_norm,
    }


def gradient_noise(model: nn.Module, loss: RowLoss, batch: Batch) -> dict[str, float]:
    """Mean squared norm of one sample's gradient, and squared norm of the mean gradient.

    With random signs for the samples, the squared norm of the signed sum's gradient has the sum of the
    squared norms as its mean.
    """
    inputs, labels = batch
    was_training = model.training
    model.eval()
    values = loss(model(inputs), labels, reduction="none")  # pyright: ignore[reportCallIssue]
    model.train(was_training)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(0)

    def squared(weights: Tensor) -> float:
        pieces = torch.autograd.grad(values, parameters, weights.to(values.dtype), retain_graph=True)
        return sum(float(piece.double().square().sum()) for piece in pieces)

    count = len(labels)
    signs = [2.0 * torch.randint(0, 2, (count,), generator=generator) - 1 for _ in range(PROBES)]
    each = torch.tensor([squared(sign) / count for sign in signs], dtype=torch.float64)
    return {
        "per_sample": float(each.mean()),
        "error": float(each.std()) / PROBES**0.5,
        "mean_gradient": squared(torch.full((count,), 1 / count, dtype=torch.float64)),
    }


def _logits(model: nn.Module, batch: Batch) -> Float[Tensor, "N C"]:
    """In evaluation mode, in float64 from there on."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(piece) for piece in batch[0].split(2000)]).double()
    model.train(was_training)
    return found
