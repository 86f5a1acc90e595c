"""The settings of ``calibrant serve --model``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from calibrant.evaluation.read_options import told


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Network to serve, and the preparation of its images."""

    model: str
    """``module:factory``, a name such as ``densenet(depth=121)``, or the folder of a run."""
    weights: Path | None = told("Weights to load: .safetensors, or a state dictionary.")
    calibrator: Path | None = told("The model's calibrator, from `calibrant fit`.")
    predictions: Path | None = told(
        "Its labelled predictions, for intervals and, without --calibrator, a fit."
    )
    method: str | None = told(
        "Calibrator to fit on --predictions; see `calibrant methods`.", metavar="METHOD"
    )
    class_names: tuple[str, ...] | None = told(
        "Class names, comma-separated or a file; or chexnet, torchxrayvision.", metavar="NAMES"
    )
    """In the network's order."""
    multilabel: bool = told("An image can have several classes, or none.", False)
    size: int = told("Resize images to N × N pixels (default: off).", 0, min=0)
    resize: int = told("Resize the shorter side to N pixels (default: off).", 0, min=0)
    crop: int = told("Crop the central N × N pixels (default: off).", 0, min=0)
    ten_crop: bool = told("Average the probabilities of ten crops.", False)
    channels: int = told("1 for grey, 3 for colour.", 3, min=1, max=3)
    mean: tuple[float, ...] | None = told(
        "Mean per channel in [0, 1], e.g. 0.485,0.456,0.406.", metavar="NUMBERS"
    )
    std: tuple[float, ...] | None = told("Standard deviation per channel.", metavar="NUMBERS")
    resamples: int = 200
    level: float = 0.95
    notice: str | None = None
