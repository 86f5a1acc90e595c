"""Metrics of predicted probabilities, as functions of ``probs`` and ``labels``.

NumPy arrays and torch tensors of any floating dtype are accepted. Values are float64 tensors on the device of
``probs``, in ``[0, 1]`` (a fraction, not per cent) unless a function says otherwise. No gradient flows
through them. Functions share these arguments:

* ``probs``: Probabilities in ``[0, 1]``: of the classes ``(N, C)`` (rows that miss one by up to 1e-3 are
  taken as they are), of an event ``(N,)``, or of several labels per sample ``(N, C)``. Elsewhere ``probs``
  and ``labels`` set the task by their shapes.
* ``labels``: Classes in ``0..C-1``, shape ``(N,)``; or outcomes in {0, 1} of the shape of ``probs``.
* ``classwise``: Judge each class against all others. By default the event of classes is that the top label
  (the lowest among equals) is right, with its probability p; several labels per sample are an event per
  column.
* ``average``: With several labels per sample or ``classwise``: ``"macro"`` for the mean over the columns,
  ``"none"`` for one value per column, shape ``(C,)``.
* ``num_bins``, ``binning``, ``norm``: See :func:`expected_calibration_error`.
* ``weights``: Weights of the samples, shape ``(N,)``, not negative.
* ``ignore_index``: Samples or positions with this label are left out.

All raise ``InputError`` if shapes disagree, a value is not finite or out of range, or an option does not
exist. Curves, tables and slopes, of one event each, refuse several labels: pass one column, ``probs[:, k],
labels[:, k]``.

In segmentation, ``probs (N, C, d1, ...)`` with ``labels (N, d1, ...)``, every position is a sample; drop
ignored ones by ``probs.movedim(1, -1)[labels != 255], labels[labels != 255]``, or use the streaming classes.
These, in CapWords, read the data batch by batch; they are torchmetrics' and imported, with that package, on
first use.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from calibrant._math.lazy import declared_exports, public_names
from calibrant.metrics.binned import *
from calibrant.metrics.calibration_tests import *
from calibrant.metrics.canonical_error import *
from calibrant.metrics.decisions import *
from calibrant.metrics.flexible_curve import *
from calibrant.metrics.out_of_distribution import *
from calibrant.metrics.reliability import *
from calibrant.metrics.score_parts import *
from calibrant.metrics.scores import *
from calibrant.metrics.selective import *
from calibrant.metrics.slope import *
from calibrant.metrics.smooth_error import *

if TYPE_CHECKING:
    from calibrant.metrics.streaming.bins import CalibrationError as CalibrationError
    from calibrant.metrics.streaming.bins import ClasswiseCalibrationError as ClasswiseCalibrationError
    from calibrant.metrics.streaming.bins import MaximumCalibrationError as MaximumCalibrationError
    from calibrant.metrics.streaming.means import AUROC as AUROC
    from calibrant.metrics.streaming.means import Accuracy as Accuracy
    from calibrant.metrics.streaming.means import BrierScore as BrierScore
    from calibrant.metrics.streaming.means import ErrorRate as ErrorRate
    from calibrant.metrics.streaming.means import HighConfidenceAccuracy as HighConfidenceAccuracy
    from calibrant.metrics.streaming.means import HighConfidenceShare as HighConfidenceShare
    from calibrant.metrics.streaming.means import NegativeLogLikelihood as NegativeLogLikelihood
    from calibrant.metrics.streaming.means import PredictiveEntropy as PredictiveEntropy

__getattr__, _, _streaming = declared_exports(__name__, __file__)
# `from calibrant.metrics import *` works without torchmetrics, which the extra `streaming` brings.
__all__ = [*public_names(globals()), *(_streaming if find_spec("torchmetrics") else [])]  # pyright: ignore[reportUnsupportedDunderAll]


def __dir__() -> list[str]:
    return sorted(__all__)
