"""The choice of the recommended calibrator, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ChoiceRow:
    """One arm in the cross-validation on the calibration samples."""

    name: str  # as the arm's
    title: str
    size: int  # how many numbers it fits
    nll: float  # of every sample under a calibrator fitted on the other folds
    behind: float  # how far its NLL lies above the best one's
    standard_error: float  # of that difference, over the samples


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The candidates, from the fewest numbers fitted to the most, and the one that was taken."""

    chosen: str  # the name of a candidate: the first within one standard error of the best
    candidates: tuple[ChoiceRow, ...]
    num_samples: int
    folds: int
