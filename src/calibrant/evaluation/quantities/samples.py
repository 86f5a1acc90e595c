"""Values of each sample, for quantities that are ratios of sums over the samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Matrix, Vector

HIGH_CONFIDENCE = 0.99


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Numbers of each decision ``(N, D)``, one per sample or per sample and label, and of each sample."""

    confidence: Matrix
    correct: Matrix
    entropy: Matrix  # empty, as are the following, where only the top label is known
    nll: Vector
    brier: Vector
    stated: Vector  # mean probability of a positive; empty, as is the next, for classes
    happened: Vector

    @cached_property
    def every(self) -> Matrix:
        """One for each decision."""
        import numpy as np

        return np.ones_like(self.confidence)

    @cached_property
    def each(self) -> Vector:
        """One for each sample."""
        import numpy as np

        return np.ones(len(self.confidence))

    @cached_property
    def confident(self) -> Matrix:
        """One for each decision of high confidence, else zero."""
        return (self.confidence >= HIGH_CONFIDENCE).astype("float64")
