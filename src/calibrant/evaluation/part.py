"""The parts of a verdict: what must be true of a calibrated model, each with its p-value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PartName = Literal["top label", "positive class", "labels", "classes", "groups", "slope"]
"""The slope was a part of its own before schema version 3."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """A range of probabilities, with what was predicted there on average and how often it occurred."""

    low: float
    high: float
    predicted: float
    actual: float


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of being calibrated, against what a calibrated model of this size shows by chance."""

    name: PartName
    holds: bool  # whether what is found can be chance, after adjustment
    p_value: float  # of the part alone
    adjusted_p: float  # Holm's, for as many looks as there are parts
    num_draws: int | None  # that the p-value comes from; None: from the normal distribution
    where: Range | None = None  # where on the scale the error of an event stands out most


@dataclass(frozen=True, kw_only=True)
class Check:
    """One test of the verdict, in words."""

    name: str  # "Overall", "Classes"
    passed: bool
    text: str  # the measured values
    metrics: tuple[str, ...] = ()  # the keys of those that the text names
