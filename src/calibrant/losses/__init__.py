"""Training losses: functions of ``logits`` and ``labels``, and modules like ``CrossEntropyLoss``.

Every loss takes what :func:`cross_entropy_loss` takes, under autocast as well, and looks at shapes and types
only, never at values. Unless its note says otherwise, it is differentiable any number of times, in O(N C)
time and memory.
"""
# ruff: noqa: I001 (recipes and messages list the losses in this order)

from torch import nn

from calibrant._math.errors import InputError
from calibrant._math.lazy import public_names, subclasses
from calibrant._math.text_form import IN_THE_TEXT, build_from, parse_call, suggesting
from calibrant.losses.cross_entropy import *
from calibrant.losses.focal import *
from calibrant.losses.scheduled_focal import *
from calibrant.losses.sample_focal import *
from calibrant.losses.dual_focal import *
from calibrant.losses.adafocal import *
from calibrant.losses.brier import *
from calibrant.losses.label_smoothing import *
from calibrant.losses.margin_label_smoothing import *
from calibrant.losses.mmce import *
from calibrant.losses.mdca import *
from calibrant.losses.smooth_calibration import *
from calibrant.losses.focal_calibration import *
from calibrant.losses.proper_focal import *
from calibrant.losses.multilabel_focal import *
from calibrant.losses.multilabel_focal_calibration import *
from calibrant.losses.linear import *

_LOSSES = subclasses(globals(), nn.Module)


def available() -> tuple[str, ...]:
    """Names for :func:`build`.

    Example:
        >>> available()[:3]
        ('cross-entropy', 'focal', 'scheduled-focal')
    """
    return tuple(_LOSSES)


@suggesting(instead=IN_THE_TEXT.format("focal(gamma=2)"))
def build(text: str) -> nn.Module:
    """Loss from its text in recipes or on the command line.

    Args:
        text: A name from :func:`available`, with settings in brackets where wanted: the module's own
            arguments with literal values.

    Returns:
        The module.

    Raises:
        InputError: If the text is malformed, a name or a setting is unknown (the message names the nearest),
            or a setting has a value that it cannot have.

    Example:
        >>> build("focal-calibration(gamma=2, calibration_weight=0.5)")
        FocalCalibrationLoss(gamma=2, calibration_weight=0.5, norm='l2')
        >>> build("focal(gama=2)")
        Traceback (most recent call last):
        calibrant._math.errors.InputError: loss 'focal' has no setting 'gama'; did you mean 'gamma'?
    """
    if "weight" in parse_call(text)[1]:
        raise InputError(
            f"{text}: `weight` holds class weights, a tensor that a text cannot give; in a recipe set "
            "training.class_weights, and for the weight of a penalty see the loss's other settings."
        )
    try:
        return build_from(text, _LOSSES, what="loss")
    except TypeError as error:
        raise InputError(f"{text}: {error}") from error


__all__ = public_names(globals())  # pyright: ignore[reportUnsupportedDunderAll]
