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
CELLS = tuple(dict.fromkeys((*BY_SAMPLES, *BY_CAPACITY)))
