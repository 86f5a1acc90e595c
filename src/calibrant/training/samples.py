"""The splits of a training, ready for the network."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._math.shapes import Int
from calibrant.data.prepare import to_unit
from calibrant.training.data import preparation
from calibrant.training.job import Job


class Samples:
    """The splits of a data set by name; ``"foreign"`` holds the out-of-distribution samples."""

    def __init__(self, job: Job, device: torch.device) -> None:
        hardware = job.recipe.hardware
        self._device = device
        self._preparation = preparation(job.recipe.data, job.dataset).to(device)
        images = len(job.dataset.input_shape) == 3
        self.layout = torch.channels_last if hardware.channels_last and images else torch.contiguous_format
        """Memory layout of images, for inputs and network."""
        place = device if hardware.resident else torch.device("cpu")
        self._parts = {name: part.to(place) for name, part in job.dataset.parts.items()}
        if job.foreign is not None:
            self._parts["foreign"] = job.foreign.to(place)

    def count(self, name: str) -> int:
        """How many samples the split holds."""
        return len(self._parts[name])

    def take(self, name: str, rows: Int[Tensor, " n"]) -> tuple[Tensor, Tensor]:
        """Inputs in [0, 1], or word numbers, and labels of some samples, on the device."""
        part = self._parts[name]
        rows = rows.to(part.labels.device)
        return to_unit(part.inputs[rows].to(self._device)), part.labels[rows].to(self._device)

    def prepare(self, unit: Tensor) -> Tensor:
        """Normalise inputs in [0, 1] as the recipe says."""
        prepared = self._preparation(unit)
        return prepared.contiguous(memory_format=self.layout) if prepared.ndim == 4 else prepared
