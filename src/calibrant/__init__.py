"""Are your classifier's probabilities true? Measure calibration, repair it, and know why.

Everything is imported where it is first used, so ``import calibrant`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._math.lazy import lazy_exports

if TYPE_CHECKING:
    from calibrant import calibrators, curvature, evaluation, losses, metrics, reports, theory
    from calibrant._math.errors import CalibrantWarning, ConvergenceError, InputError, NotFittedError
    from calibrant.calibrators import load_calibrator
    from calibrant.evaluation import Comparison, Evaluation, compare, evaluate
    from calibrant.predictions import Predictions, load_predictions
    from calibrant.reports import write_report

__version__ = "0.2.0"

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
    "evaluate",
    "evaluation",
    "load_calibrator",
    "load_predictions",
    "losses",
    "metrics",
    "reports",
    "theory",
    "write_report",
]

MOVED = frozenset({"data", "load_recipe", "load_run", "models", "train", "training"})
"""Names that calibrant-lab has now."""
_fetch, __dir__ = lazy_exports(
    __name__,
    __all__,
    {
        "_math.errors": ["CalibrantWarning", "ConvergenceError", "InputError", "NotFittedError"],
        "calibrators": ["load_calibrator"],
        "evaluation": ["Comparison", "Evaluation", "compare", "evaluate"],
        "predictions": ["Predictions", "load_predictions"],
        "reports": ["write_report"],
    },
)


def __getattr__(name: str) -> object:
    if name in MOVED:
        raise AttributeError(f"calibrant.{name} is now calibrant_lab.{name}: pip install 'calibrant[lab]'.")
    return _fetch(name)
