"""Splits of a training, network views of images, and inference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant.losses._module import BatchLossModule
from calibrant_lab.data import Dataset, LazyImages, Part
from calibrant_lab.data.lazy import Plan
from calibrant_lab.data.table import to_unit
from calibrant_lab.training.data import Job, preparation
from calibrant_lab.training.processes import Processes
from calibrant_lab.training.recipe import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def network_shape(recipe: Recipe, dataset: Dataset) -> tuple[int, ...]:
    shape, side = dataset.input_shape, recipe.data.crop
    if not side:
        return shape
    if len(shape) != 3 or side > min(shape[1:]):
        raise InputError(
            f"`data.crop` must be 0 or at most the sides of the images; got {side} for samples of shape "
            f"{shape}."
        )
    return (shape[0], side, side)


def middle(images: Float[Tensor, "N C H W"], side: int) -> Float[Tensor, "N C h w"]:
    if not side:
        return images
    top, left = (round((total - side) / 2) for total in images.shape[2:])
    return images[:, :, top : top + side, left : left + side]


def ten_crops(images: Float[Tensor, "N C H W"], side: int) -> Iterator[Float[Tensor, "N C h w"]]:
    """Yield four corners and the middle, then their mirror images."""
    ends = (slice(None, side), slice(-side, None))
    views = [*(images[:, :, rows, columns] for rows in ends for columns in ends), middle(images, side)]
    yield from views
    yield from (view.flip(3) for view in views)


def averaged(views: Sequence[Float[Tensor, "N C"]], *, multilabel: bool) -> Float[Tensor, "N C"]:
    """Return logits of the mean probabilities: log-odds of labels, log-probabilities of classes.

    They are computed from logarithms in float64, so that probabilities next to 0 and 1 keep their digits.
    """
    stacked = torch.stack([each.double() for each in views])

    def log_mean(logarithms: Float[Tensor, "V N C"]) -> Float[Tensor, "N C"]:
        return logarithms.logsumexp(dim=0) - math.log(len(views))

    if multilabel:
        made = log_mean(logsigmoid(stacked)) - log_mean(logsigmoid(-stacked))
    else:
        made = log_mean(stacked.log_softmax(dim=2))
    return made.to(views[0].dtype)


class AsJudged(nn.Module):
    """A trained network with its evaluation views, one batch each: whole images in, logits out."""

    def __init__(self, network: Callable[[Tensor], Tensor], recipe: Recipe, *, multilabel: bool) -> None:
        super().__init__()
        self.network = network
        self._side, self._views, self._multilabel = recipe.data.crop, recipe.evaluation.views, multilabel

    def forward(self, images: Tensor) -> Float[Tensor, "N C"]:
        if self._views == "one":
            return self.network(middle(images, self._side))
        views = [self.network(view) for view in ten_crops(images, self._side)]
        return averaged(views, multilabel=self._multilabel)


_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def least_batch(model: nn.Module, processes: int) -> int:
    """Return the smallest batch: one sample per process (two under normalisation), and at least two."""
    normalised = any(isinstance(module, _NORMS) for module in model.modules())
    return 2 * processes if normalised else max(2, processes)


def batches_in(order: Int[Tensor, " N"], recipe: Recipe, *, least: int) -> list[Int[Tensor, " B"]]:
    """Return an epoch's batches, without a final one that is too small."""
    size = recipe.training.batch_size
    batches = list(order.split(size))
    needed = size if recipe.training.drop_last else least
    if len(batches) > 1 and len(batches[-1]) < needed:
        batches.pop()
    return batches


def check_batches(recipe: Recipe, samples: int, model: nn.Module) -> None:
    processes = recipe.hardware.devices * recipe.hardware.nodes
    least = least_batch(model, processes)
    if min(recipe.training.batch_size, samples) < least:
        raise InputError(
            f"`training.batch_size` must be at least {least}, and so must the number of training samples: "
            f"each of {processes} processes needs {least // processes} of every batch; got "
            f"{recipe.training.batch_size} and {samples}."
        )


def batch_facts(recipe: Recipe, samples: int, model: nn.Module, loss: nn.Module, *, processes: int) -> str:
    """Return remarks on unexpected batch sizes, or an empty text."""
    least, said = least_batch(model, processes), ""
    left = samples - sum(map(len, batches_in(torch.arange(samples), recipe, least=least)))
    if left:
        why = "training.drop_last" if recipe.training.drop_last else f"a batch needs {least}"
        said = f"; the last {left} of {samples} samples of every epoch are left out ({why})"
    if processes > 1 and (isinstance(loss, BatchLossModule) or ":" in recipe.loss.partition("(")[0]):
        said += f"; each of {processes} processes computes it on its share of the batch"
    return said


class Samples:
    """Splits of a dataset by name; ``"foreign"`` holds the out-of-distribution samples."""

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
        self._parts[name] = part if isinstance(part.inputs, LazyImages) else part.to(self._place)
        self._plans.pop(name, None)

    def plan(self, name: str, batches: Sequence[Int[Tensor, " n"]]) -> None:
        """Announce the next batches, so that images are decoded in advance."""
        inputs = self._parts[name].inputs
        if isinstance(inputs, LazyImages):
            self._plans[name] = Plan(inputs, batches)

    def count(self, name: str) -> int:
        return len(self._parts[name])

    def labels(self, name: str) -> Tensor:
        return self._parts[name].labels.cpu()

    def take(self, name: str, rows: Int[Tensor, " n"]) -> tuple[Tensor, Tensor]:
        """Return inputs in [0, 1], or word numbers, and labels, on the device."""
        part = self._parts[name]
        labels = part.labels[rows.to(part.labels.device)].to(self._device)
        if isinstance(part.inputs, LazyImages):
            plan = self._plans.get(name)
            inputs = part.inputs[rows.cpu()] if plan is None else plan.take(rows.cpu())
        else:
            inputs = part.inputs[rows.to(part.inputs.device)]
        return to_unit(inputs.to(self._device)), labels

    def prepare(self, unit: Tensor) -> Tensor:
        prepared = self._preparation(unit)
        return prepared.contiguous(memory_format=self.layout) if prepared.ndim == 4 else prepared


def logits_of(fabric: Fabric, model: nn.Module, inputs: Tensor) -> Tensor:
    """Return logits in the recipe's precision, outside the wrapper, which would synchronise processes."""
    with fabric.autocast():
        converted: Any = fabric.strategy.precision.convert_input(inputs)
        logits: Tensor = model(converted)
    return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()


class Inference:
    """Network in evaluation mode, on any split."""

    def __init__(
        self, fabric: Fabric, job: Job, *, model: nn.Module, processes: Processes, samples: Samples
    ) -> None:
        self._fabric, self._recipe, self._width = fabric, job.recipe, job.dataset.num_classes
        self._side, self._multilabel = job.recipe.data.crop, job.dataset.multilabel
        self._processes, self._samples = processes, samples
        self.model = model

    def logits(self, name: str) -> Float[Tensor, "N C"]:
        """Return a split's logits in sample order, on the CPU of every process."""
        return self.over(name, lambda inputs, _labels: self.run(inputs), width=self._width)

    def final_logits(self, name: str) -> Float[Tensor, "N C"]:
        """Return :meth:`logits`, or those of the mean probabilities over evaluation views."""
        judged = AsJudged(self._of_view, self._recipe, multilabel=self._multilabel)
        return self.over(name, lambda inputs, _labels: judged(inputs), width=self._width)

    def run(self, inputs: Tensor) -> Tensor:
        return self._of_view(middle(inputs, self._side))

    @torch.no_grad()
    def _of_view(self, view: Tensor) -> Tensor:
        return logits_of(self._fabric, self.model, view)

    def over(
        self, name: str, compute: Callable[[Tensor, Tensor], Float[Tensor, "n K"]], *, width: int
    ) -> Float[Tensor, "N K"]:
        """Return ``width`` numbers per sample, in order, on every CPU; one process computes a batch."""
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
