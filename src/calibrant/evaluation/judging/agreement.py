"""Agreement of predicted classes with the labels and with neighbouring labels."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from calibrant._math.shapes import Float, Int

OFFSETS = (-1, 0, 1)


@dataclass
class Agreement:
    """Sums over the samples, by their weights."""

    num_classes: int
    hits: dict[int, float] = field(default_factory=lambda: dict.fromkeys(OFFSETS, 0.0))
    """Where the predicted class is the label plus that number."""
    total: float = 0.0
    predicted: Tensor = field(init=False)
    occurred: Tensor = field(init=False)
    variance: Tensor = field(init=False)
    """The variance of how often each class occurs, if what is stated is true."""

    def __post_init__(self) -> None:
        self.predicted = torch.zeros(self.num_classes, dtype=torch.float64)
        self.occurred = torch.zeros(self.num_classes, dtype=torch.float64)
        self.variance = torch.zeros(self.num_classes, dtype=torch.float64)

    def add(
        self, probs: Float[Tensor, "n C"], labels: Int[Tensor, " n"], weights: Float[Tensor, " n"] | None
    ) -> None:
        """Count some samples."""
        predicted = probs.argmax(dim=1)
        mass = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights
        self.total += float(mass.sum())
        self.variance += mass.square() @ (probs * (1 - probs))
        self.predicted.index_add_(0, predicted, mass)
        self.occurred.index_add_(0, labels, mass)
        for offset in OFFSETS:
            self.hits[offset] += float(mass[predicted == labels + offset].sum())

    def share(self, offset: int) -> float:
        """Share of samples whose predicted class is the label plus this number."""
        return self.hits[offset] / self.total

    @property
    def by_chance(self) -> float:
        """Expected agreement of independent predictions and labels."""
        return float(self.predicted @ self.occurred) / self.total**2
