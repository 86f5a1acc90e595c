"""The network with its loss and optimiser: learning from one batch, and what a step costs."""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from calibrant._math.shapes import Float, Int
from calibrant.curvature import SAM, Penalised
from calibrant_lab.data import build_augmentation
from calibrant_lab.training import seeds
from calibrant_lab.training.captured import OPTIONS, CapturedStep, check_compiled, is_capturable
from calibrant_lab.training.data import Job
from calibrant_lab.training.epoch_metrics import right_answers
from calibrant_lab.training.loss import build_regularizer, labels_of_parts
from calibrant_lab.training.processes import Processes
from calibrant_lab.training.recipe import Recipe
from calibrant_lab.training.samples import Samples, logits_of, middle
from calibrant_lab.training.schedule import RELATIVE_RATE, build_optimiser

if TYPE_CHECKING:
    from lightning_fabric import Fabric


_Criterion: TypeAlias = Callable[[Tensor, Tensor], Tensor]
_ROUNDS, _MOST_SECONDS = 15, 10.0


def cost_facts(cost: Mapping[str, Any] | None) -> dict[str, str]:
    """The result of :func:`measured_cost`, in a few words."""
    if cost is None:
        return {}
    mine, plain = cost["milliseconds"], cost["cross_entropy_milliseconds"]
    times = cost["times_cross_entropy"]
    said = f"a step took {times:.2g} × one of plain cross-entropy ({mine:.3g} ms against {plain:.3g} ms)"
    return {"cost": said}


def measured_cost(
    recipe: Recipe,
    model: nn.Module,
    loss: nn.Module,
    *,
    run: Callable[[nn.Module, Tensor], Tensor],
    inputs: Tensor,
    labels: Tensor,
) -> dict[str, Any] | None:
    """Milliseconds of a training step of the recipe, and of one by plain cross-entropy, in turn on one batch.

    A copy of the network takes the steps, at a learning rate of zero, in this process alone; None where it
    cannot be copied. Medians of 15 rounds, or of as many as ten seconds allow. A penalty on one of k batches
    counts as its mean over k.
    """
    try:
        model, loss = copy.deepcopy(model), copy.deepcopy(loss)
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    for value in model.parameters():
        value.grad = None
    model.train()
    steps = _steps(recipe, model, lambda criterion: criterion(run(model, inputs), labels), loss)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    begun = time.perf_counter()
    for number in range(_ROUNDS + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if inputs.device.type == "cuda":
                torch.cuda.synchronize(inputs.device)
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
        if number > 2 and time.perf_counter() - begun > _MOST_SECONDS:
            break
    found = {name: 1e3 * statistics.median(times) for name, times in seconds.items()}
    every = recipe.curvature.every if recipe.curvature.weight else 1
    mine = (found["whole"] + (every - 1) * found["loss"]) / every
    plain = found["cross-entropy"]
    return {
        "milliseconds": mine,
        "cross_entropy_milliseconds": plain,
        "times_cross_entropy": mine / plain if plain else math.inf,
        "batch_size": len(labels),
        "threads": torch.get_num_threads(),
        "rounds": len(seconds["whole"]),
    }


def _steps(
    recipe: Recipe, model: nn.Module, value: Callable[[_Criterion], Tensor], loss: nn.Module
) -> dict[str, Callable[[], object]]:
    """A step of cross-entropy, of the recipe's loss alone, and of that with everything the recipe adds."""
    optimiser = build_optimiser(recipe.optimiser, model)
    for group in optimiser.param_groups:
        group["lr"] = 0.0
    every_batch = recipe.model_copy(update={"curvature": recipe.curvature.model_copy(update={"every": 1})})
    penalised = build_regularizer(every_batch, model, loss)
    sam = SAM(model, optimiser, rho=recipe.sam.rho)

    def step_of(criterion: _Criterion) -> Callable[[], object]:
        def step() -> None:
            optimiser.zero_grad()
            value(criterion).backward()
            optimiser.step()

        return step

    return {
        "cross-entropy": step_of(functional.cross_entropy),
        "loss": step_of(loss),
        "whole": step_of(penalised or loss) if recipe.sam.rho == 0 else lambda: sam.step(lambda: value(loss)),
    }


class _Pass(NamedTuple):
    """A batch that went forward and backward."""

    logits: Tensor
    found: Penalised


class Learner:
    """Everything that training changes."""

    def __init__(self, fabric: Fabric, job: Job, *, processes: Processes, samples: Samples) -> None:
        self._fabric, self._recipe = fabric, job.recipe
        self._processes, self._samples = processes, samples
        self.model = job.model
        if samples.layout is torch.channels_last:
            to_layout: Any = self.model.to
            to_layout(memory_format=torch.channels_last)
        optimiser = build_optimiser(job.recipe.optimiser, self.model)
        compiles = job.recipe.hardware.compile
        wrapped: Any = torch.compile(self.model, options=OPTIONS) if compiles else self.model
        self._checks, self._checked = compiles and processes.count == 1, set[int]()
        self.module, self.optimiser = fabric.setup(wrapped, optimiser)
        self.loss = job.loss.to(processes.device)
        self.augmentations = build_augmentation(
            job.recipe.data.augment, job.dataset.input_shape, side=job.recipe.data.crop
        )
        self.regularizer = build_regularizer(job.recipe, self.model, self.loss, rank=processes.rank)
        rho = job.recipe.sam.rho
        self.sam = SAM(self.model, self.optimiser, rho=rho) if rho > 0 else None
        capturable = is_capturable(job, processes.device, processes=processes.count)
        self._captured = CapturedStep(self._step, self._changed) if capturable else None
        self._epoch, self._drawn_for_epoch = -1, list[Tensor]()

    @property
    def learning_rate(self) -> float:
        return float(self.optimiser.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group.get(RELATIVE_RATE, 1.0)

    @property
    def no_sums(self) -> Float[Tensor, " K"]:
        """What :meth:`learn` returns, summed over no batches."""
        extra = 2 * ((self.regularizer is not None) + (self._recipe.optimiser.clip_norm > 0))
        return torch.zeros(3 + extra, dtype=torch.float64)

    @property
    def draws_on(self) -> torch.device:
        """Where the random numbers of an epoch are drawn; on a GPU only for a captured step, all at once."""
        return torch.device("cpu") if self._captured is None else self._processes.device

    def learn(self, rows: Int[Tensor, " B"], *, epoch: int, batch: int) -> Float[Tensor, " K"]:
        """Learn from one batch of an epoch, both from 0; ``rows`` are on :attr:`draws_on`.

        What is returned are sums over the share of this process: loss, correct answers and samples, or their
        labelled parts; then, where curvature is penalised, trace and penalised samples; then, where gradients
        are clipped, the length of the gradient before that and whether it was clipped, for every sample.
        """
        drawn = self._drawn(len(rows), epoch, batch)
        if self._captured is None:
            return self._step(rows, *drawn)
        constants = (self.learning_rate, getattr(self.loss, "gamma", None))  # a schedule changes these
        return self._captured(constants, rows, *drawn)

    def _drawn(self, count: int, epoch: int, batch: int) -> list[Int[Tensor, "B K"]]:
        """What each augmentation does with each sample of a batch."""
        if self._captured is None:
            source = seeds.generator(self._recipe.seed, seeds.AUGMENTATION, epoch, batch)
            return [each.draw(count, source) for each in self.augmentations]
        if epoch != self._epoch:
            source = seeds.generator(self._recipe.seed, seeds.AUGMENTATION, epoch, device=self.draws_on)
            total = self._samples.count("train")
            self._epoch = epoch
            self._drawn_for_epoch = [each.draw(total, source) for each in self.augmentations]
        first = batch * self._recipe.training.batch_size
        return [each[first : first + count] for each in self._drawn_for_epoch]

    def _changed(self) -> Iterator[Tensor]:
        """Every tensor that a step changes."""
        yield from self.model.parameters()
        yield from self.model.buffers()
        for state in self.optimiser.state.values():
            yield from (each for each in state.values() if isinstance(each, Tensor))

    def _step(self, rows: Int[Tensor, " B"], *drawn: Int[Tensor, "B K"]) -> Float[Tensor, " K"]:
        """What :meth:`learn` does, given what was drawn for each augmentation."""
        clip = self._recipe.optimiser.clip_norm
        inputs, labels = self._samples.take("train", self._processes.share(rows))
        for augmentation, each in zip(self.augmentations, drawn, strict=True):
            inputs = augmentation.apply(inputs, self._processes.share(each))
        # Gradients are averaged over the processes, whose shares may differ by one sample.
        scale = len(labels) * self._processes.count / len(rows)
        targets = labels_of_parts(self.model, inputs, labels)
        parts = len(targets) / len(labels)
        if self._recipe.reduction == "sum":
            scale *= len(rows) * parts
        elif self._recipe.reduction == "per-sample":
            scale *= parts
        passes: list[_Pass] = []

        def backward() -> Tensor:
            passes.append(self._backward(self._samples.prepare(inputs), targets, scale))
            return passes[-1].found.loss

        _ = backward() if self.sam is None else self.sam.gradients(backward)
        length: Tensor | None = None
        if clip > 0:
            length = self._fabric.clip_gradients(
                self.module, self.optimiser, max_norm=clip, error_if_nonfinite=False
            )
        self.optimiser.step()
        self.optimiser.zero_grad()
        sums = self._sums(passes[0], targets)
        if clip == 0:
            return sums
        # Some strategies do not tell the length.
        length = torch.full_like(sums[0], math.nan) if length is None else length.detach().to(sums)
        clipped = torch.where(length.isnan(), length, (length > clip).to(sums))
        return torch.cat([sums, torch.stack([length, clipped]) * sums[2]])

    def _backward(self, inputs: Tensor, labels: Tensor, scale: float) -> _Pass:
        """Gradients of a process's share of a batch."""
        if self._checks and len(inputs) not in self._checked:
            self._check_compiled(inputs, labels)
        if self.regularizer is None:
            logits = self.module(inputs)
            loss: Tensor = self.loss(logits, labels)
            found = Penalised(loss, loss, None)
        else:
            with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
                logits = self.module(inputs)
            found = self.regularizer.penalised(logits, labels)
        self._fabric.backward(found.total * scale)
        return _Pass(logits.detach(), found)

    def _check_compiled(self, inputs: Tensor, labels: Tensor) -> None:
        """Once for each size of batch: the compiler makes code for each."""
        check_compiled(
            self.model,
            lambda: self.loss(logits_of(self._fabric, self.model, inputs), labels),
            lambda: self.loss(self.module(inputs), labels),
            batch_size=len(inputs),
        )
        self._checked.add(len(inputs))

    def _sums(self, done: _Pass, labels: Tensor) -> Float[Tensor, " K"]:
        right = right_answers(done.logits, labels).sum()
        size = torch.full((), len(labels), device=self._processes.device)
        sums = [done.found.loss.detach().double() * len(labels), right.double(), size.double()]
        if self.regularizer is not None:
            trace = done.found.trace
            seen = size.double() * float(trace is not None)
            mean = torch.zeros_like(seen) if trace is None else trace.detach().double()
            sums += [mean * size.double(), seen]
        return torch.stack(sums)

    def cost(self, rows: Int[Tensor, " B"]) -> dict[str, Any] | None:
        """The time of a step against plain cross-entropy; None where the recipe adds nothing to it."""
        if self.regularizer is None and self.sam is None:
            return None
        device = self._processes.device
        inputs, labels = self._samples.take("train", self._processes.share(rows))

        def run(model: nn.Module, samples: Tensor) -> Tensor:
            with sdpa_kernel(SDPBackend.MATH):
                return logits_of(self._fabric, model, samples)

        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            return measured_cost(
                self._recipe,
                self.model,
                self.loss,
                run=run,
                inputs=middle(self._samples.prepare(inputs), self._recipe.data.crop),
                labels=labels_of_parts(self.model, inputs, labels),
            )

    def state_dict(self) -> dict[str, Any]:
        """What a resumed training needs of network, optimiser and loss."""
        return {
            "model": on_cpu(self.model.state_dict()),
            "optimiser": self.optimiser.state_dict(),
            "loss": self.loss.state_dict(),
            "penalised_batches": 0 if self.regularizer is None else self.regularizer.calls,
            "precision": self._fabric.strategy.precision.state_dict(),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        self.model.load_state_dict(saved["model"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.loss.load_state_dict(saved["loss"])
        if self.regularizer is not None:
            self.regularizer.calls = saved["penalised_batches"]
        self._fabric.strategy.precision.load_state_dict(saved["precision"])


def on_cpu(state: Mapping[str, Any], *, copied: bool = False) -> dict[str, Any]:
    return {
        name: value.detach().to("cpu", copy=copied) if isinstance(value, Tensor) else value
        for name, value in state.items()
    }
