"""Test whether a classifier's probabilities are right, and fix them if they aren't.

Everything is imported where it is first used, so ``import calibrant`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._math.lazy import declared_exports

if TYPE_CHECKING:
    from calibrant import calibrators as calibrators
    from calibrant import curvature as curvature
    from calibrant import evaluation as evaluation
    from calibrant import losses as losses
    from calibrant import metrics as metrics
    from calibrant import plots as plots
    from calibrant import repair as repair
    from calibrant import reports as reports
    from calibrant import theory as theory
    from calibrant._math.errors import CalibrantWarning as CalibrantWarning
    from calibrant._math.errors import ConvergenceError as ConvergenceError
    from calibrant._math.errors import InputError as InputError
    from calibrant._math.errors import NotFittedError as NotFittedError
    from calibrant.calibrators import load_calibrator as load_calibrator
    from calibrant.evaluation import Comparison as Comparison
    from calibrant.evaluation import Evaluation as Evaluation
    from calibrant.evaluation import compare as compare
    from calibrant.evaluation import evaluate as evaluate
    from calibrant.predictions import Predictions as Predictions
    from calibrant.predictions import load_predictions as load_predictions
    from calibrant.repair import apply as apply
    from calibrant.repair import fit as fit
    from calibrant.reports import write_report as write_report

__version__ = "0.3.0"
"""The version of calibrant and calibrant-lab; ``tests/test_release.py`` compares other copies with it."""

MOVED = frozenset({"data", "load_recipe", "load_run", "models", "train", "training"})
"""Names that calibrant-lab has now."""
_fetch, _, _public = declared_exports(__name__, __file__)
__all__ = ["__version__", *_public]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name in MOVED:
        raise AttributeError(f"calibrant.{name} is now calibrant_lab.{name}: pip install 'calibrant[lab]'.")
    return _fetch(name)


def __dir__() -> list[str]:
    return sorted(__all__)
