"""Limits of a request, sentences that refuse more, and the settings of ``calibrant serve --model``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.evaluation.read_options import told

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one server; sizes in bytes, times in seconds."""

    upload: int = 64 * MIB
    """Largest request, as it comes."""
    held: int = 256 * MIB
    """Largest size of all requests that are being answered, together."""
    files: int = 64
    """Most files in one request."""
    fields: int = 64
    """Most fields in one request, beside its files."""
    members: int = 1000
    """Most members of an archive."""
    unpacked: int = 1024 * MIB
    """Largest file, once it is no longer compressed."""
    pixels: int = 40_000_000
    """Most pixels of an image."""
    receive: float = 60.0
    """Longest time to send a request."""
    compute: float = 120.0
    """Longest time to answer it."""
    waiting: int = 64
    """Most evaluations that wait for their turn."""
    memory: int = 4096 * MIB
    """Memory of an evaluation beyond its process's needs; enforced on Linux only."""


class Refusal(Exception):  # noqa: N818 (it is an answer)
    """Answer with a status and one sentence, and perhaps the columns of the table."""

    def __init__(self, status: int, sentence: str, columns: Sequence[str] = ()) -> None:
        super().__init__(status, sentence, columns)
        self.status, self.sentence, self.columns = status, " ".join(sentence.split()), tuple(columns)

    @property
    def told(self) -> dict[str, Any]:
        return {"error": self.sentence} | ({"columns": self.columns} if self.columns else {})


def size(count: int) -> str:
    """Format a number of bytes.

    Example:
        >>> size(64 * MIB), size(2048)
        ('64 MiB', '2 KiB')
    """
    return f"{count / MIB:.4g} MiB" if count >= MIB else f"{count / 1024:.4g} KiB"


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
