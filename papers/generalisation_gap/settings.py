"""Settings of the generalisation-gap study."""

from __future__ import annotations

from dataclasses import dataclass

GAMMAS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0)
SIGNAL = 2.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """How many samples, and how many features, of which one matters."""

    num_samples: int
    num_features: int


BY_SAMPLES = tuple(Cell(num_samples=n, num_features=40) for n in (200, 400, 800, 1600, 3200))
BY_CAPACITY = tuple(Cell(num_samples=800, num_features=d) for d in (2, 10, 20, 40, 80, 120))
BY_SIZE = (
    *(Cell(num_samples=10 * d, num_features=d) for d in (10, 40, 160, 640)),
    *(Cell(num_samples=5 * d, num_features=d) for d in (40, 160, 640)),
)
"""Two loads, each at sizes four times apart: how fast the limit is reached."""
COMPOSED = (0, 1, 2, 4)
"""Places in :data:`BY_SAMPLES` of the cells whose temperatures are multiplied on the page."""
