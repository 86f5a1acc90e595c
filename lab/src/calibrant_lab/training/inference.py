"""Passes over whole splits in which nothing is learned, shared among the processes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.training.job import Job
from calibrant_lab.training.processes import Processes
from calibrant_lab.training.samples import Samples
from calibrant_lab.training.views import AsJudged, middle

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def logits_of(fabric: Fabric, model: nn.Module, inputs: Tensor) -> Tensor:
    """Logits in the recipe's precision, outside the wrapper, where processes would wait for each other."""
    with fabric.autocast():
        converted: Any = fabric.strategy.precision.convert_input(inputs)
        logits: Tensor = model(converted)
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()


class Inference:
    """The network in evaluation mode, on any split."""

    def __init__(
        self, fabric: Fabric, job: Job, *, model: nn.Module, processes: Processes, samples: Samples
    ) -> None:
        self._fabric, self._recipe, self._width = fabric, job.recipe, job.dataset.num_classes
        self._side, self._multilabel = job.recipe.data.crop, job.dataset.multilabel
        self._processes, self._samples = processes, samples
        self.model = model

    def logits(self, name: str) -> Float[Tensor, "N C"]:
        """Logits of a whole split in the order of its samples, on the CPU of every process."""
        return self.over(name, lambda inputs, _labels: self.run(inputs), width=self._width)

    def final_logits(self, name: str) -> Float[Tensor, "N C"]:
        """As :meth:`logits`, or of the mean probabilities of the views that the evaluation asks for."""
        judged = AsJudged(self._of_view, self._recipe, multilabel=self._multilabel)
        return self.over(name, lambda inputs, _labels: judged(inputs), width=self._width)

    def run(self, inputs: Tensor) -> Tensor:
        """Logits of a batch, seen as after each epoch."""
        return self._of_view(middle(inputs, self._side))

    @torch.no_grad()
    def _of_view(self, view: Tensor) -> Tensor:
        return logits_of(self._fabric, self.model, view)

    def over(
        self, name: str, compute: Callable[[Tensor, Tensor], Float[Tensor, "n K"]], *, width: int
    ) -> Float[Tensor, "N K"]:
        """Rows of ``width`` numbers for every sample of a split, in order, on the CPU of every process.

        Each batch is computed by one process, so the numbers do not depend on how many there are.
        """
        rank, world = self._processes.rank, self._processes.count
        total, size = self._samples.count(name), self._recipe.evaluation.batch_size
        batches = list(torch.arange(total).split(size))
        self._processes.share_buffers(self.model)
        self.model.eval()
        self._samples.plan(name, batches[rank::world])
        done: list[Tensor] = []
        for rows in batches[rank::world]:
            inputs, labels = self._samples.take(name, rows)
            done.append(compute(self._samples.prepare(inputs), labels))
        if world == 1:
            return torch.cat(done).cpu()
        # Every process sends a table of the same size: its batches one after the other, padded with zeros.
        dtype = torch.float64 if self._recipe.training.precision == "64-true" else torch.float32
        table = torch.zeros(
            (math.ceil(len(batches) / world), size, width), dtype=dtype, device=self._processes.device
        )
        for place, values in enumerate(done):
            table[place, : len(values)] = values
        # (world, batches, size, K) -> (batches, world, size, K)
        return self._processes.stacked(table).transpose(0, 1).flatten(0, 2)[:total]
