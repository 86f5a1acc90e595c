"""The splits of a training, ready for the network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from calibrant._math.shapes import Int
from calibrant_lab.data import LazyImages, Part
from calibrant_lab.data.loading import Plan
from calibrant_lab.data.prepare import to_unit
from calibrant_lab.training.data import preparation
from calibrant_lab.training.job import Job


class Samples:
    """The splits of a data set by name; ``"foreign"`` holds the out-of-distribution samples."""

    def __init__(self, job: Job, device: torch.device) -> None:
        hardware = job.recipe.hardware
        self._device = device
        self._preparation = preparation(job.recipe.data, job.dataset).to(device)
        images = len(job.dataset.input_shape) == 3
        self.layout = torch.channels_last if hardware.channels_last and images else torch.contiguous_format
        """Memory layout of images, for inputs and network."""
        self._place = device if hardware.resident else torch.device("cpu")
        self._parts: dict[str, Part] = {}
        self._plans: dict[str, Plan] = {}
        foreign = {} if job.foreign is None else {"foreign": job.foreign}
        for name, part in (job.dataset.parts | foreign).items():
            self.add(name, part)

    def add(self, name: str, part: Part) -> None:
        """Take in further samples, under a name of their own or in place of those that had it."""
        self._parts[name] = part if isinstance(part.inputs, LazyImages) else part.to(self._place)
        self._plans.pop(name, None)

    def add_some(self, name: str, of: str, count: int) -> None:
        """Take in ``count`` evenly spaced samples of a split, under another name."""
        part = self._parts[of]
        rows = torch.linspace(0, len(part) - 1, count).long()
        if isinstance(part.inputs, LazyImages):
            inputs = part.inputs.chosen(rows)
        else:
            inputs = part.inputs[rows.to(part.inputs.device)]
        self.add(name, Part(inputs=inputs, labels=part.labels[rows.to(part.labels.device)]))

    def plan(self, name: str, batches: Sequence[Int[Tensor, " n"]]) -> None:
        """Say which batches will be taken next, so that images can be decoded before they are needed."""
        inputs = self._parts[name].inputs
        if isinstance(inputs, LazyImages):
            self._plans[name] = Plan(inputs, batches)

    def count(self, name: str) -> int:
        """How many samples the split holds."""
        return len(self._parts[name])

    def labels(self, name: str) -> Tensor:
        """The labels of a split, on the CPU."""
        return self._parts[name].labels.cpu()

    def take(self, name: str, rows: Int[Tensor, " n"]) -> tuple[Tensor, Tensor]:
        """Inputs in [0, 1], or word numbers, and labels of some samples, on the device."""
        part = self._parts[name]
        labels = part.labels[rows.to(part.labels.device)].to(self._device)
        if isinstance(part.inputs, LazyImages):
            plan = self._plans.get(name)
            inputs = part.inputs[rows.cpu()] if plan is None else plan.take(rows.cpu())
        else:
            inputs = part.inputs[rows.to(part.inputs.device)]
        return to_unit(inputs.to(self._device)), labels

    def prepare(self, unit: Tensor) -> Tensor:
        """Normalise inputs in [0, 1] as the recipe says."""
        prepared = self._preparation(unit)
        return prepared.contiguous(memory_format=self.layout) if prepared.ndim == 4 else prepared
