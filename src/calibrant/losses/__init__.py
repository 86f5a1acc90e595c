"""What to train with: functions of ``logits`` and ``labels``, and modules like ``CrossEntropyLoss``.

Every loss takes what cross-entropy takes (``weight``, ``ignore_index``, ``reduction``, logits of shape
``(N, C, d1, ...)``, any floating-point type, autocast), and looks at shapes and types only, never at values.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from calibrant._math.text_form import build_from
from calibrant.losses.adafocal import AdaFocalLoss, adafocal_loss, updated_gammas
from calibrant.losses.brier import BrierLoss, brier_loss
from calibrant.losses.cross_entropy import CrossEntropyLoss, cross_entropy_loss
from calibrant.losses.dual_focal import DualFocalLoss, dual_focal_loss
from calibrant.losses.focal import FocalLoss, focal_loss
from calibrant.losses.focal_calibration import FocalCalibrationLoss, focal_calibration_loss
from calibrant.losses.label_smoothing import LabelSmoothingLoss, label_smoothing_loss
from calibrant.losses.margin_label_smoothing import MarginLabelSmoothingLoss, margin_label_smoothing_loss
from calibrant.losses.mdca import MDCALoss, mdca_loss
from calibrant.losses.mmce import MMCELoss, mmce_loss
from calibrant.losses.multilabel_focal import MultilabelFocalLoss, multilabel_focal_loss
from calibrant.losses.multilabel_focal_calibration import (
    MultilabelFocalCalibrationLoss,
    multilabel_focal_calibration_loss,
)
from calibrant.losses.optimal_gamma import optimal_gamma
from calibrant.losses.proper_focal import ProperFocalLoss, proper_focal_loss
from calibrant.losses.sample_focal import SampleFocalLoss, sample_focal_loss
from calibrant.losses.scheduled_focal import ScheduledFocalLoss, scheduled_gamma
from calibrant.losses.smooth_calibration import (
    SmoothCalibrationLoss,
    smooth_calibration_loss,
    smooth_calibration_penalty,
)

__all__ = [
    "AdaFocalLoss",
    "BrierLoss",
    "CrossEntropyLoss",
    "DualFocalLoss",
    "FocalCalibrationLoss",
    "FocalLoss",
    "LabelSmoothingLoss",
    "MDCALoss",
    "MMCELoss",
    "MarginLabelSmoothingLoss",
    "MultilabelFocalCalibrationLoss",
    "MultilabelFocalLoss",
    "ProperFocalLoss",
    "SampleFocalLoss",
    "ScheduledFocalLoss",
    "SmoothCalibrationLoss",
    "adafocal_loss",
    "available",
    "brier_loss",
    "build",
    "cross_entropy_loss",
    "dual_focal_loss",
    "focal_calibration_loss",
    "focal_loss",
    "label_smoothing_loss",
    "margin_label_smoothing_loss",
    "mdca_loss",
    "mmce_loss",
    "multilabel_focal_calibration_loss",
    "multilabel_focal_loss",
    "optimal_gamma",
    "proper_focal_loss",
    "sample_focal_loss",
    "scheduled_gamma",
    "smooth_calibration_loss",
    "smooth_calibration_penalty",
    "updated_gammas",
]

_BY_NAME: dict[str, Callable[..., nn.Module]] = {
    "cross-entropy": CrossEntropyLoss,
    "focal": FocalLoss,
    "scheduled-focal": ScheduledFocalLoss,
    "sample-focal": SampleFocalLoss,
    "dual-focal": DualFocalLoss,
    "adafocal": AdaFocalLoss,
    "brier": BrierLoss,
    "label-smoothing": LabelSmoothingLoss,
    "margin-label-smoothing": MarginLabelSmoothingLoss,
    "mmce": MMCELoss,
    "mdca": MDCALoss,
    "smooth-calibration": SmoothCalibrationLoss,
    "focal-calibration": FocalCalibrationLoss,
    "proper-focal": ProperFocalLoss,
    "multilabel-focal": MultilabelFocalLoss,
    "multilabel-focal-calibration": MultilabelFocalCalibrationLoss,
}


def available() -> tuple[str, ...]:
    """The names that :func:`build` knows.

    Example:
        >>> available()[:3]
        ('cross-entropy', 'focal', 'scheduled-focal')
    """
    return tuple(_BY_NAME)


def build(text: str) -> nn.Module:
    """The loss that ``text`` describes, as recipes and the command line write it.

    Args:
        text: A name from :func:`available`, with settings in brackets where wanted: the module's own
            arguments with literal values.

    Returns:
        The module.

    Raises:
        InputError: If the text is malformed, or a name or a setting is unknown; the message names the
            nearest.

    Example:
        >>> build("focal-calibration(gamma=2, calibration_weight=0.5)")
        FocalCalibrationLoss(gamma=2, calibration_weight=0.5, norm='l2')
        >>> build("focal(gama=2)")
        Traceback (most recent call last):
        calibrant._math.errors.InputError: loss 'focal' has no setting 'gama'; did you mean 'gamma'?
    """
    return build_from(text, _BY_NAME, what="loss")
