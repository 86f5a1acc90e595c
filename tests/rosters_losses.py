"""The losses under chosen options, their formulas anew and naively, and what is claimed of each.

One entry here, and it is put through every law of the three files ``laws_losses*``. A law from which a flag
exempts it must be broken by it.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq, linprog
from torch import Tensor, nn

from calibrant import losses


@dataclass(frozen=True)
class Loss:
    """A loss under one choice of options, and what its documentation claims."""

    name: str
    module: Callable[..., nn.Module]
    reference: Callable[[Tensor, Tensor], Tensor]
    """The formula, naively: a value per sample (per entry with several labels), or one for the batch."""
    hand: tuple[list[list[float]], list[Any], float]
    """Probabilities (of every label where there are several), labels and the mean, worked out by hand."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    settings: Mapping[str, Any] | None = None
    """Those of the module, where they are not the function's options."""
    state: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """Buffers of the module, which the function takes as options."""
    limit: Mapping[str, Any] | None = None
    """Options that make it cross-entropy."""
    distance: tuple[int, float] | None = None
    """Order and weight of a distance from the probabilities to the label; with targets, to the targets."""
    masked_is_absent: bool = True
    """A class masked by -inf in every row is as if absent (not: one of the C that it divides by)."""
    proper: bool = False
    """Strictly: its expectation is least at the true probabilities, and only there."""
    multilabel: bool = False
    batch: bool = False
    """One value for the whole batch."""
    soft: bool = True
    """Takes ``targets``."""
    solved: bool = False
    """The reference is solved numerically: its value has no gradient."""
    scales: bool = True
    """A class's weight multiplies the value of its samples (not: that class's part of a smoothed label)."""
    twice_differentiable: bool = True
    looks: bool = False
    """Looks at values, so that it needs a device that has some."""
    function: Callable[..., Tensor] = field(default=None, kw_only=True)  # type: ignore[assignment]
    """By default the one that the module is bound to."""

    def __post_init__(self) -> None:
        if self.function is None:
            object.__setattr__(self, "function", getattr(losses, self.module.function.__name__))

    @property
    def expects(self) -> bool:
        """Under soft targets it is its expectation over the labels."""
        return self.distance is None

    def __call__(self, logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
        """Evaluate under the options of this entry."""
        return self.function(logits, labels, **{**self.options, **more})

    def build(self, **more: Any) -> nn.Module:
        """The module under the options of this entry."""
        module = self.module(**{**(self.options if self.settings is None else self.settings), **more})
        module.load_state_dict({**module.state_dict(), **self.state})
        return module


# The formulas, which share nothing with ours.


def _true(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    probs = torch.softmax(logits, 1)
    return probs, probs[torch.arange(len(labels)), labels]


def _one_hot(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.one_hot(labels, logits.shape[1]).to(logits.dtype)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return -_true(logits, labels)[1].log()


def focal(gamma: float) -> Callable[[Tensor, Tensor], Tensor]:
    """-(1 - p_t) ** gamma log p_t."""

    def values(logits: Tensor, labels: Tensor) -> Tensor:
        true = _true(logits, labels)[1]
        return -((1 - true) ** gamma) * true.log()

    return values


def sample_focal(logits: Tensor, labels: Tensor) -> Tensor:
    true = _true(logits, labels)[1]
    gammas = [5.0 if p < 0.2 else 3.0 if p < 0.5 else 2.0 for p in true.tolist()]
    return torch.stack([-((1 - p) ** g) * p.log() for p, g in zip(true, gammas, strict=True)])


def dual_focal(logits: Tensor, labels: Tensor) -> Tensor:
    values = []
    for row, label in zip(torch.softmax(logits, 1), labels.tolist(), strict=True):
        below = [p for k, p in enumerate(row) if k != label and p < row[label]]
        runner_up = max(below) if below else torch.zeros(())
        values.append(-((1 - row[label] + runner_up) ** 5) * row[label].log())
    return torch.stack(values)


ADAFOCAL = {
    "gammas": torch.tensor([2.0, -1.5, 0.7, -0.3], dtype=torch.float64),
    "edges": torch.tensor([0.1, 0.2, 0.4, 0.7, 0.9], dtype=torch.float64),
}


def adafocal(logits: Tensor, labels: Tensor) -> Tensor:
    values = []
    for p in _true(logits, labels)[1]:
        bin_of_p = sum(p.item() >= edge for edge in (0.2, 0.4, 0.7))
        gamma = (2.0, -1.5, 0.7, -0.3)[bin_of_p]
        power = (1 - p) ** gamma if gamma >= 0 else (1 + p) ** -gamma
        values.append(-power * p.log())
    return torch.stack(values)


def brier(logits: Tensor, labels: Tensor) -> Tensor:
    return ((torch.softmax(logits, 1) - _one_hot(logits, labels)) ** 2).sum(1)


def focal_calibration(norm: int) -> Callable[[Tensor, Tensor], Tensor]:
    def values(logits: Tensor, labels: Tensor) -> Tensor:
        difference = torch.softmax(logits, 1) - _one_hot(logits, labels)
        return focal(2)(logits, labels) + 0.5 * (difference.abs() ** norm).sum(1)

    return values


def label_smoothing(logits: Tensor, labels: Tensor) -> Tensor:
    target = 0.9 * _one_hot(logits, labels) + 0.1 / logits.shape[1]
    return -(target * torch.softmax(logits, 1).log()).sum(1)


def label_smoothing_others(logits: Tensor, labels: Tensor) -> Tensor:
    hot = _one_hot(logits, labels)
    target = 0.9 * hot + 0.1 * (1 - hot) / (logits.shape[1] - 1)
    return -(target * torch.softmax(logits, 1).log()).sum(1)


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    gaps = logits.max(1, keepdim=True).values - logits
    return cross_entropy(logits, labels) + 0.3 * (gaps - 1.5).clamp(min=0).mean(1)


def _kernel(confidences: Tensor) -> Tensor:
    return (-(confidences[:, None] - confidences[None, :]).abs() / 0.4).exp()


def mmce_weighted(as_published: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """By the matrix of pairs, with penalty 2."""

    def value(logits: Tensor, labels: Tensor) -> Tensor:
        confidences, predictions = torch.softmax(logits, 1).max(1)
        right = (predictions == labels).to(logits.dtype)
        wrong, kernel = 1 - right, _kernel(confidences)
        m, n = right.sum(), wrong.sum()

        def mean(left: Tensor, other: Tensor, pairs: Tensor) -> Tensor:
            again = pairs + 1e-5 if as_published else 1.0
            return (left[:, None] * other[None, :] * kernel).sum() / pairs / again

        missed, claimed = right * (1 - confidences), wrong * confidences
        square = (
            mean(missed, missed, m * m) + mean(claimed, claimed, n * n) - 2 * mean(missed, claimed, m * n)
        )
        return cross_entropy(logits, labels).mean() + 2 * (square + 1e-10).sqrt()

    return value


def mmce_plain(logits: Tensor, labels: Tensor) -> Tensor:
    """By the matrix of pairs, with penalty 2."""
    confidences, predictions = torch.softmax(logits, 1).max(1)
    residuals = (predictions == labels).to(logits.dtype) - confidences
    square = (residuals[:, None] * residuals[None, :] * _kernel(confidences)).mean()
    return cross_entropy(logits, labels).mean() + 2 * (square + 1e-10).sqrt()


def mdca(logits: Tensor, labels: Tensor) -> Tensor:
    probs = torch.softmax(logits, 1)
    total = torch.zeros((), dtype=logits.dtype)
    for k in range(logits.shape[1]):
        total = total + (probs[:, k].mean() - (labels == k).to(logits.dtype).mean()).abs()
    return focal(1)(logits, labels).mean() + 0.8 * total / logits.shape[1]


def smooth_calibration(logits: Tensor, labels: Tensor) -> Tensor:
    """By a linear programme, with penalty 0.7."""
    confidences, predictions = torch.softmax(logits, 1).max(1)
    points = confidences.numpy()
    residuals = ((predictions == labels).numpy() - points) / len(points)
    rows, bounds = [], []
    for i, j in itertools.permutations(range(len(points)), 2):
        row = np.zeros(len(points))
        row[i], row[j] = 1, -1
        rows.append(row)
        bounds.append(abs(points[i] - points[j]))
    solved = linprog(-residuals, A_ub=np.array(rows), b_ub=bounds, bounds=(-1, 1), method="highs")
    return cross_entropy(logits, labels).mean() - 0.7 * solved.fun


def proper_focal(logits: Tensor, labels: Tensor) -> Tensor:
    """By bisection: q_i solves log w(q_i) = log p_i + c with w = -1 / FL', and c makes the q_i sum to one."""
    gamma = 2.0

    def log_w(q: float) -> float:
        slope = (1 - q) ** gamma / q - gamma * (1 - q) ** (gamma - 1) * np.log(q)
        return -np.log(slope)

    def q_of(log_p: float, c: float) -> float:
        return brentq(lambda q: log_w(q) - log_p - c, 1e-12, 1 - 1e-9, xtol=1e-15)

    values = []
    for row, label in zip(torch.log_softmax(logits, 1).tolist(), labels.tolist(), strict=True):
        c = brentq(lambda c, row=row: sum(q_of(p, c) for p in row) - 1, -8, 8, xtol=1e-14)
        q = q_of(row[label], c)
        values.append(-((1 - q) ** gamma) * np.log(q))
    return torch.tensor(values, dtype=logits.dtype)


def multilabel(
    gamma: float, calibration_weight: float, *, alpha: float | None = None
) -> Callable[[Tensor, Tensor], Tensor]:
    ones, zeros = (1.0, 1.0) if alpha is None else (alpha, 1 - alpha)

    def values(logits: Tensor, labels: Tensor) -> Tensor:
        s = torch.sigmoid(logits)
        focal = -ones * labels * (1 - s) ** gamma * s.log()
        focal = focal - zeros * (1 - labels) * s**gamma * (1 - s).log()
        return focal + calibration_weight * (s - labels) ** 2

    return values


_LOG = float(-np.log(0.8))

LOSSES = (
    Loss(
        "cross_entropy",
        losses.CrossEntropyLoss,
        cross_entropy,
        hand=([[0.8, 0.2]], [0], _LOG),
        limit={},
        proper=True,
    ),
    Loss(
        "focal",
        losses.FocalLoss,
        focal(2.0),
        options={"gamma": 2.0},
        hand=([[0.8, 0.2]], [0], 0.04 * _LOG),
        limit={"gamma": 0.0},
    ),
    Loss(
        "focal_half",
        losses.FocalLoss,
        focal(0.5),
        options={"gamma": 0.5},
        hand=([[0.8, 0.2]], [0], 0.2**0.5 * _LOG),
        limit={"gamma": 0},
    ),
    Loss(
        "focal_negative",
        losses.FocalLoss,
        focal(-0.5),
        options={"gamma": -0.5},
        hand=([[0.8, 0.2]], [0], 0.2**-0.5 * _LOG),
        limit={"gamma": 0.0},
    ),
    Loss(
        "scheduled_focal",
        losses.ScheduledFocalLoss,
        focal(2.0),
        options={"gamma": 2.0},
        settings={"gammas": (2.0,), "milestones": ()},
        hand=([[0.6, 0.4]], [1], -0.36 * np.log(0.4)),
        limit={"gamma": 0.0},
    ),
    Loss(
        "sample_focal",
        losses.SampleFocalLoss,
        sample_focal,
        options={"thresholds": (0.2, 0.5, 1.0), "gammas": (5.0, 3.0, 2.0)},
        hand=([[0.8, 0.2], [0.9, 0.1]], [0, 1], (0.04 * _LOG + 0.9**5 * np.log(10)) / 2),
    ),
    Loss(
        "dual_focal",
        losses.DualFocalLoss,
        dual_focal,
        hand=([[0.5, 0.3, 0.2]], [0], 0.8**5 * np.log(2)),
        limit={"gamma": 0.0},
        soft=False,
    ),
    Loss(
        "adafocal",
        losses.AdaFocalLoss,
        adafocal,
        options=ADAFOCAL,
        hand=([[0.8, 0.2], [0.6, 0.4]], [0, 0], (1.8**0.3 * _LOG - 0.4**0.7 * np.log(0.6)) / 2),
        settings={"num_bins": 4},
        state=ADAFOCAL,
    ),
    Loss(
        "brier",
        losses.BrierLoss,
        brier,
        hand=([[0.7, 0.2, 0.1]], [0], 0.09 + 0.04 + 0.01),
        proper=True,
        distance=(2, 1.0),
    ),
    Loss(
        "label_smoothing",
        losses.LabelSmoothingLoss,
        label_smoothing,
        options={"smoothing": 0.1},
        hand=([[0.8, 0.2]], [0], 0.95 * _LOG + 0.05 * np.log(5)),
        limit={"smoothing": 0.0},
        scales=False,
    ),
    Loss(
        "label_smoothing_others",
        losses.LabelSmoothingLoss,
        label_smoothing_others,
        options={"smoothing": 0.1, "spread": "others"},
        hand=([[0.8, 0.2]], [0], 0.9 * _LOG + 0.1 * np.log(5)),
        limit={"smoothing": 0.0},
        scales=False,
    ),
    Loss(
        "margin_label_smoothing",
        losses.MarginLabelSmoothingLoss,
        margin,
        options={"margin": 1.5, "penalty": 0.3},
        hand=([[0.9, 0.1]], [0], -np.log(0.9) + 0.3 * (np.log(9) - 1.5) / 2),
        limit={"penalty": 0.0},
    ),
    Loss(
        "mmce",
        losses.MMCELoss,
        mmce_weighted(as_published=False),
        options={"as_published": False},
        hand=(
            [[0.8, 0.2], [0.4, 0.6]],
            [0, 0],
            (_LOG - np.log(0.4)) / 2 + 2 * np.sqrt(0.04 + 0.36 - 0.24 * np.exp(-0.5) + 1e-10),
        ),
        limit={"penalty": 0.0},
        batch=True,
        soft=False,
    ),
    Loss(
        "mmce_published",
        losses.MMCELoss,
        mmce_weighted(as_published=True),
        options={"as_published": True},
        hand=(
            [[0.8, 0.2], [0.4, 0.6]],
            [0, 0],
            (_LOG - np.log(0.4)) / 2 + 2 * np.sqrt((0.4 - 0.24 * np.exp(-0.5)) / (1 + 1e-5) + 1e-10),
        ),
        limit={"penalty": 0.0},
        batch=True,
        soft=False,
    ),
    Loss(
        "mmce_plain",
        losses.MMCELoss,
        mmce_plain,
        options={"weighted": False, "as_published": False},
        hand=([[0.8, 0.2]], [0], _LOG + 2 * np.sqrt(0.04 + 1e-10)),
        limit={"penalty": 0.0},
        batch=True,
        soft=False,
        proper=True,
    ),
    Loss(
        "mdca",
        losses.MDCALoss,
        mdca,
        options={"penalty": 0.8, "gamma": 1.0},
        hand=([[0.8, 0.2]], [0], 0.2 * _LOG + 0.8 * 0.2),
        limit={"penalty": 0.0, "gamma": 0.0},
        batch=True,
        masked_is_absent=False,
    ),
    Loss(
        "smooth_calibration",
        losses.SmoothCalibrationLoss,
        smooth_calibration,
        options={"penalty": 0.7},
        hand=([[0.8, 0.2]], [0], _LOG + 0.7 * 0.2),
        limit={"penalty": 0.0},
        batch=True,
        solved=True,
        twice_differentiable=False,
        looks=True,
        proper=True,
    ),
    Loss(
        "focal_calibration",
        losses.FocalCalibrationLoss,
        focal_calibration(2),
        options={"gamma": 2.0, "calibration_weight": 0.5},
        hand=([[0.7, 0.2, 0.1]], [0], -0.09 * np.log(0.7) + 0.5 * 0.14),
        limit={"gamma": 0.0, "calibration_weight": 0.0},
        distance=(2, 0.5),
    ),
    Loss(
        "focal_calibration_l1",
        losses.FocalCalibrationLoss,
        focal_calibration(1),
        options={"gamma": 2.0, "calibration_weight": 0.5, "norm": "l1"},
        hand=([[0.7, 0.2, 0.1]], [0], -0.09 * np.log(0.7) + 0.3),
        limit={"gamma": 0.0, "calibration_weight": 0.0},
        distance=(1, 0.5),
    ),
    Loss(
        "proper_focal",
        losses.ProperFocalLoss,
        proper_focal,
        options={"gamma": 2.0},
        hand=([[0.25, 0.25, 0.25, 0.25]], [2], 0.75**2 * np.log(4)),
        limit={"gamma": 0.0},
        solved=True,
        proper=True,
    ),
    Loss(
        "multilabel_focal",
        losses.MultilabelFocalLoss,
        multilabel(2.0, 0.0),
        hand=([[0.8, 0.4]], [[1, 0]], (0.04 * _LOG - 0.16 * np.log(0.6)) / 2),
        limit={"gamma": 0.0},
        multilabel=True,
        soft=False,
    ),
    Loss(
        "multilabel_focal_half",
        losses.MultilabelFocalLoss,
        multilabel(0.5, 0.0),
        options={"gamma": 0.5},
        hand=([[0.8]], [[1]], 0.2**0.5 * _LOG),
        limit={"gamma": 0.0},
        multilabel=True,
        soft=False,
    ),
    Loss(
        "multilabel_focal_alpha",
        losses.MultilabelFocalLoss,
        multilabel(2.0, 0.0, alpha=0.25),
        options={"gamma": 2.0, "alpha": 0.25},
        hand=([[0.8, 0.4]], [[1, 0]], (0.25 * 0.04 * _LOG - 0.75 * 0.16 * np.log(0.6)) / 2),
        limit={"gamma": 0.0, "alpha": None},
        multilabel=True,
        soft=False,
    ),
    Loss(
        "multilabel_focal_calibration",
        losses.MultilabelFocalCalibrationLoss,
        multilabel(3.0, 0.7),
        options={"gamma": 3.0, "calibration_weight": 0.7},
        hand=([[0.8]], [[1]], 0.008 * _LOG + 0.7 * 0.04),
        limit={"gamma": 0.0, "calibration_weight": 0.0},
        multilabel=True,
        soft=False,
    ),
)
