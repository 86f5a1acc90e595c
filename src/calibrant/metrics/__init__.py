"""Metrics of predicted probabilities, as functions of ``probs`` and ``labels``.

The shapes set the task: classes (``probs (N, C)``, ``labels (N,)``), an event (both ``(N,)``) or
several labels per sample (both ``(N, C)``). In segmentation, ``probs (N, C, d1, ...)`` with ``labels
(N, d1, ...)``, every position is a sample; drop ignored ones by
``probs.movedim(1, -1)[labels != 255], labels[labels != 255]``, or use the streaming classes. NumPy arrays and
torch tensors of any floating dtype are accepted; values are float64 tensors. The classes in CapWords read
the data batch by batch; they are torchmetrics' and imported, with that package, on first use.
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
from calibrant.metrics.roc import *
from calibrant.metrics.score_parts import *
from calibrant.metrics.scores import *
from calibrant.metrics.selective import *
from calibrant.metrics.slope import *
from calibrant.metrics.smooth_error import *
from calibrant.metrics.top_k_error import *
from calibrant.metrics.two_bin_error import *
from calibrant.metrics.variational_error import *

if TYPE_CHECKING:
    from calibrant.metrics.streaming.bins import CalibrationError as CalibrationError
    from calibrant.metrics.streaming.bins import ClasswiseCalibrationError as ClasswiseCalibrationError
    from calibrant.metrics.streaming.bins import MaximumCalibrationError as MaximumCalibrationError
    from calibrant.metrics.streaming.means import Accuracy as Accuracy
    from calibrant.metrics.streaming.means import BrierScore as BrierScore
    from calibrant.metrics.streaming.means import ErrorRate as ErrorRate
    from calibrant.metrics.streaming.means import HighConfidenceAccuracy as HighConfidenceAccuracy
    from calibrant.metrics.streaming.means import HighConfidenceShare as HighConfidenceShare
    from calibrant.metrics.streaming.means import NegativeLogLikelihood as NegativeLogLikelihood
    from calibrant.metrics.streaming.means import PredictiveEntropy as PredictiveEntropy
    from calibrant.metrics.streaming.ranks import AUROC as AUROC

__getattr__, _, _streaming = declared_exports(__name__, __file__)
# `from calibrant.metrics import *` works without torchmetrics, which the extra `streaming` brings.
__all__ = [*public_names(globals()), *(_streaming if find_spec("torchmetrics") else [])]  # pyright: ignore[reportUnsupportedDunderAll]


def __dir__() -> list[str]:
    return sorted(__all__)
