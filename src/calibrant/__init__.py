"""Are your classifier's probabilities true? Measure calibration, repair it, and know why.

Everything is imported where it is first used, so ``import calibrant`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrant import (
        calibrators,
        curvature,
        data,
        evaluation,
        losses,
        metrics,
        models,
        reports,
        theory,
        training,
    )
    from calibrant._math.errors import CalibrantWarning, ConvergenceError, InputError, NotFittedError
    from calibrant.calibrators import load_calibrator
    from calibrant.evaluation import Comparison, Evaluation, compare, evaluate
    from calibrant.predictions import Predictions, load_predictions
    from calibrant.reports import write_report
    from calibrant.training import load_recipe, load_run, train

__version__ = "0.1.0.dev0"

_HOME_OF = {
    "CalibrantWarning": "calibrant._math.errors",
    "Comparison": "calibrant.evaluation",
    "ConvergenceError": "calibrant._math.errors",
    "Evaluation": "calibrant.evaluation",
    "InputError": "calibrant._math.errors",
    "NotFittedError": "calibrant._math.errors",
    "Predictions": "calibrant.predictions",
    "compare": "calibrant.evaluation",
    "evaluate": "calibrant.evaluation",
    "load_calibrator": "calibrant.calibrators",
    "load_predictions": "calibrant.predictions",
    "load_recipe": "calibrant.training",
    "load_run": "calibrant.training",
    "train": "calibrant.training",
    "write_report": "calibrant.reports",
}
_ROOMS = (
    "calibrators",
    "curvature",
    "data",
    "evaluation",
    "losses",
    "metrics",
    "models",
    "reports",
    "theory",
    "training",
)

__all__ = [
    "CalibrantWarning",
    "Comparison",
    "ConvergenceError",
    "Evaluation",
    "InputError",
    "NotFittedError",
    "Predictions",
    "__version__",
    "calibrators",
    "compare",
    "curvature",
    "data",
    "evaluate",
    "evaluation",
    "load_calibrator",
    "load_predictions",
    "load_recipe",
    "load_run",
    "losses",
    "metrics",
    "models",
    "reports",
    "theory",
    "train",
    "training",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"calibrant.{name}")
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    msg = f"module 'calibrant' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
