"""What ``calibrant serve --model`` is told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Which network is served, and what its images go through."""

    model: str
    """``module:factory``, a name such as ``densenet(depth=121)``, or the folder of a run."""
    weights: Path | None = None
    calibrator: Path | None = None
    predictions: Path | None = None
    """The network's predictions with labels: the calibrator is fitted on them, and intervals are theirs."""
    method: str | None = None
    """Name of the calibrator that is fitted on them, where no file holds one."""
    class_names: tuple[str, ...] | None = None
    """In the network's order."""
    multilabel: bool = False
    size: int = 0
    resize: int = 0
    crop: int = 0
    channels: int = 3
    ten_crop: bool = False
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    resamples: int = 200
    level: float = 0.95
    notice: str | None = None
