"""Calibration in scikit-learn, Lightning, transformers, ONNX and experiment trackers, imported on demand."""

from typing import TYPE_CHECKING

from calibrant._math.lazy import declared_exports

if TYPE_CHECKING:
    from calibrant.integrations.trackers import log_evaluation as log_evaluation

__getattr__, __dir__, __all__ = declared_exports(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
