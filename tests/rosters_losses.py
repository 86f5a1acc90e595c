"""The losses under chosen options, with what is claimed of each.

One entry here, and it is put through every law of the three files ``laws_losses*``. A law from which a flag
exempts it must be broken by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor, nn

import references_losses as references
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


_LOG = float(-np.log(0.8))

LOSSES = (
    Loss(
        "cross_entropy",
        losses.CrossEntropyLoss,
        references.cross_entropy,
        hand=([[0.8, 0.2]], [0], _LOG),
        limit={},
        proper=True,
    ),
    Loss(
        "focal",
        losses.FocalLoss,
        references.focal(2.0),
        options={"gamma": 2.0},
        hand=([[0.8, 0.2]], [0], 0.04 * _LOG),
        limit={"gamma": 0.0},
    ),
    Loss(
        "focal_half",
        losses.FocalLoss,
        references.focal(0.5),
        options={"gamma": 0.5},
        hand=([[0.8, 0.2]], [0], 0.2**0.5 * _LOG),
        limit={"gamma": 0},
    ),
    Loss(
        "focal_negative",
        losses.FocalLoss,
        references.focal(-0.5),
        options={"gamma": -0.5},
        hand=([[0.8, 0.2]], [0], 0.2**-0.5 * _LOG),
        limit={"gamma": 0.0},
    ),
    Loss(
        "scheduled_focal",
        losses.ScheduledFocalLoss,
        references.focal(2.0),
        options={"gamma": 2.0},
        settings={"gammas": (2.0,), "milestones": ()},
        hand=([[0.6, 0.4]], [1], -0.36 * np.log(0.4)),
        limit={"gamma": 0.0},
    ),
    Loss(
        "sample_focal",
        losses.SampleFocalLoss,
        references.sample_focal,
        options={"thresholds": (0.2, 0.5, 1.0), "gammas": (5.0, 3.0, 2.0)},
        hand=([[0.8, 0.2], [0.9, 0.1]], [0, 1], (0.04 * _LOG + 0.9**5 * np.log(10)) / 2),
    ),
    Loss(
        "dual_focal",
        losses.DualFocalLoss,
        references.dual_focal,
        hand=([[0.5, 0.3, 0.2]], [0], 0.8**5 * np.log(2)),
        limit={"gamma": 0.0},
        soft=False,
    ),
    Loss(
        "adafocal",
        losses.AdaFocalLoss,
        references.adafocal,
        options=references.ADAFOCAL,
        hand=([[0.8, 0.2], [0.6, 0.4]], [0, 0], (1.8**0.3 * _LOG - 0.4**0.7 * np.log(0.6)) / 2),
        settings={"num_bins": 4},
        state=references.ADAFOCAL,
    ),
    Loss(
        "brier",
        losses.BrierLoss,
        references.brier,
        hand=([[0.7, 0.2, 0.1]], [0], 0.09 + 0.04 + 0.01),
        proper=True,
        distance=(2, 1.0),
    ),
    Loss(
        "label_smoothing",
        losses.LabelSmoothingLoss,
        references.label_smoothing,
        options={"smoothing": 0.1},
        hand=([[0.8, 0.2]], [0], 0.95 * _LOG + 0.05 * np.log(5)),
        limit={"smoothing": 0.0},
        scales=False,
    ),
    Loss(
        "label_smoothing_others",
        losses.LabelSmoothingLoss,
        references.label_smoothing_others,
        options={"smoothing": 0.1, "spread": "others"},
        hand=([[0.8, 0.2]], [0], 0.9 * _LOG + 0.1 * np.log(5)),
        limit={"smoothing": 0.0},
        scales=False,
    ),
    Loss(
        "margin_label_smoothing",
        losses.MarginLabelSmoothingLoss,
        references.margin,
        options={"margin": 1.5, "penalty": 0.3},
        hand=([[0.9, 0.1]], [0], -np.log(0.9) + 0.3 * (np.log(9) - 1.5) / 2),
        limit={"penalty": 0.0},
    ),
    Loss(
        "mmce",
        losses.MMCELoss,
        references.mmce_weighted(as_published=False),
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
        references.mmce_weighted(as_published=True),
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
        references.mmce_plain,
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
        references.mdca,
        options={"penalty": 0.8, "gamma": 1.0},
        hand=([[0.8, 0.2]], [0], 0.2 * _LOG + 0.8 * 0.2),
        limit={"penalty": 0.0, "gamma": 0.0},
        batch=True,
        masked_is_absent=False,
    ),
    Loss(
        "smooth_calibration",
        losses.SmoothCalibrationLoss,
        references.smooth_calibration,
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
        references.focal_calibration(2),
        options={"gamma": 2.0, "calibration_weight": 0.5},
        hand=([[0.7, 0.2, 0.1]], [0], -0.09 * np.log(0.7) + 0.5 * 0.14),
        limit={"gamma": 0.0, "calibration_weight": 0.0},
        distance=(2, 0.5),
    ),
    Loss(
        "focal_calibration_l1",
        losses.FocalCalibrationLoss,
        references.focal_calibration(1),
        options={"gamma": 2.0, "calibration_weight": 0.5, "norm": "l1"},
        hand=([[0.7, 0.2, 0.1]], [0], -0.09 * np.log(0.7) + 0.3),
        limit={"gamma": 0.0, "calibration_weight": 0.0},
        distance=(1, 0.5),
    ),
    Loss(
        "proper_focal",
        losses.ProperFocalLoss,
        references.proper_focal,
        options={"gamma": 2.0},
        hand=([[0.25, 0.25, 0.25, 0.25]], [2], 0.75**2 * np.log(4)),
        limit={"gamma": 0.0},
        solved=True,
        proper=True,
    ),
    Loss(
        "multilabel_focal",
        losses.MultilabelFocalLoss,
        references.multilabel(2.0, 0.0),
        hand=([[0.8, 0.4]], [[1, 0]], (0.04 * _LOG - 0.16 * np.log(0.6)) / 2),
        limit={"gamma": 0.0},
        multilabel=True,
        soft=False,
    ),
    Loss(
        "multilabel_focal_half",
        losses.MultilabelFocalLoss,
        references.multilabel(0.5, 0.0),
        options={"gamma": 0.5},
        hand=([[0.8]], [[1]], 0.2**0.5 * _LOG),
        limit={"gamma": 0.0},
        multilabel=True,
        soft=False,
    ),
    Loss(
        "multilabel_focal_alpha",
        losses.MultilabelFocalLoss,
        references.multilabel(2.0, 0.0, alpha=0.25),
        options={"gamma": 2.0, "alpha": 0.25},
        hand=([[0.8, 0.4]], [[1, 0]], (0.25 * 0.04 * _LOG - 0.75 * 0.16 * np.log(0.6)) / 2),
        limit={"gamma": 0.0, "alpha": None},
        multilabel=True,
        soft=False,
    ),
    Loss(
        "multilabel_focal_calibration",
        losses.MultilabelFocalCalibrationLoss,
        references.multilabel(3.0, 0.7),
        options={"gamma": 3.0, "calibration_weight": 0.7},
        hand=([[0.8]], [[1]], 0.008 * _LOG + 0.7 * 0.04),
        limit={"gamma": 0.0, "calibration_weight": 0.0},
        multilabel=True,
        soft=False,
    ),
)
