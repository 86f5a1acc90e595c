"""A network with loss and optimiser: learning from a batch, and the cost of a step."""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant.curvature import SAM, Penalised
from calibrant_lab.data import build_augmentation
from calibrant_lab.training import seeds
from calibrant_lab.training.data import Job
from calibrant_lab.training.epoch_metrics import right_answers
from calibrant_lab.training.loss import LabelsParts, build_regularizer, labels_of_parts
from calibrant_lab.training.processes import Processes
from calibrant_lab.training.recipe import Recipe
from calibrant_lab.training.samples import Samples, logits_of, middle
from calibrant_lab.training.schedule import RELATIVE_RATE, build_optimiser

if TYPE_CHECKING:
    from lightning_fabric import Fabric


_WRONG = 0.5  # relative error of a parameter's gradient; bfloat16 is off by some hundredths
_NEGLIGIBLE = 1e-3  # of the whole gradient


def check_compiled(
    model: nn.Module, plain: Callable[[], Tensor], compiled: Callable[[], Tensor], *, batch_size: int
) -> None:
    """Refuse a compiled network with other gradients at a batch size; buffers and random numbers stay."""
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    parameters = [each for _, each in named]
    device = parameters[0].device
    with undone(model.buffers, device):
        expected: Any = torch.autograd.grad(plain(), parameters, allow_unused=True)
    with undone(model.buffers, device):
        found: Any = torch.autograd.grad(compiled(), parameters, allow_unused=True)
    norms = [0.0 if each is None else float(each.norm()) for each in expected]
    whole = sum(norm**2 for norm in norms) ** 0.5
    for (name, _), one, other, norm in zip(named, expected, found, norms, strict=True):
        if one is None or norm <= _NEGLIGIBLE * whole:
            continue
        off = 1.0 if other is None else float((other - one).norm()) / norm
        if not off <= _WRONG:
            raise InputError(
                f"torch.compile gives wrong gradients: {name} is off by {100 * off:.0f} % for a batch "
                f"of {batch_size}; set hardware.compile to false, or, if that is only the smaller last batch "
                "of an epoch, training.drop_last to true."
            )


@contextmanager
def undone(state: Callable[[], Iterable[Tensor]], device: torch.device) -> Generator[None]:
    """Restore tensors and random numbers at the end; new tensors become zero."""
    before = [(each, each.detach().clone()) for each in state()]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield
    known = {id(each) for each, _ in before}
    with torch.no_grad():
        for each, value in before:
            each.copy_(value)
        for each in state():
            if id(each) not in known:
                each.zero_()


_WARM_UPS = 3  # steps in which libraries choose their kernels, before a graph is captured


class _Graph(NamedTuple):
    given: tuple[Tensor, ...]  # where the arguments of a step are put
    result: Tensor
    replay: Callable[[], object]


class CapturedStep:
    """A step, captured once per batch size, then replayed on its arguments.

    Args:
        step: Takes tensors on the GPU and changes ``state`` in place; it reads no value of a tensor.
        state: All tensors that a step changes. The steps that come before a capture leave no trace in them.
    """

    capturing: ClassVar[bool] = True  # false does every step launch by launch, to compare

    def __init__(self, step: Callable[..., Tensor], state: Callable[[], Iterable[Tensor]]) -> None:
        self._step, self._state = step, state
        self._graphs: dict[int, _Graph] = {}
        self._constants: Hashable = None
        self._warm = set[int]()

    def __call__(self, constants: Hashable, *given: Tensor) -> Tensor:
        """Run a step; the next one overwrites its result.

        A capture fixes the ``constants``, such as the learning rate; new values need new graphs. The batch
        size is the length of the first argument ``given``.
        """
        if not self.capturing:
            return self._step(*given)
        if constants != self._constants:
            self._graphs.clear()
            self._constants = constants
        size = len(given[0])
        graph = self._graphs.get(size) or self._captured(given)
        self._graphs[size] = graph
        for place, value in zip(graph.given, given, strict=True):
            place.copy_(value)
        graph.replay()
        return graph.result

    def _captured(self, given: Sequence[Tensor]) -> _Graph:
        kept = tuple(each.clone() for each in given)
        with _fastest_kernels():
            if len(kept[0]) not in self._warm:
                with undone(self._state, kept[0].device):
                    warm_up(self._step, kept)
                self._warm.add(len(kept[0]))
            replay, result = capture(self._step, kept)
        return _Graph(kept, result, replay)


def warm_up(step: Callable[..., Tensor], given: Sequence[Tensor]) -> None:
    """Run some steps on a side stream, as PyTorch requires before a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UPS):
            step(*given)
    torch.cuda.current_stream().wait_stream(stream)


def capture(step: Callable[..., Tensor], given: Sequence[Tensor]) -> tuple[Callable[[], object], Tensor]:
    """Return the replay of the step on the memory of ``given``, and its result's memory."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step(*given)
    return graph.replay, result


@contextmanager
def _fastest_kernels() -> Generator[None]:
    """Let cuDNN time its convolutions and pick the fastest."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def is_capturable(job: Job, device: torch.device, *, processes: int) -> bool:
    """Return True if all training steps do equal work, on one GPU."""
    recipe, hardware = job.recipe, job.recipe.hardware
    adds_to_the_loss = recipe.curvature.weight > 0 or recipe.sam.rho > 0
    own_code = any(":" in text.partition("(")[0] for text in (recipe.model, recipe.loss))
    return (
        device.type == "cuda"
        and processes == 1
        and recipe.optimiser.name == "sgd"
        and not recipe.optimiser.plain
        and recipe.training.precision != "16-mixed"  # which looks whether gradients overflowed
        and not (adds_to_the_loss or own_code or hardware.compile)
        and hardware.resident
        and isinstance(job.dataset.train.inputs, Tensor)
        and not (recipe.data.crop or job.dataset.multilabel or isinstance(job.model, LabelsParts))
    )


_Criterion: TypeAlias = Callable[[Tensor, Tensor], Tensor]
_ROUNDS, _MOST_SECONDS = 15, 10.0


def cost_facts(cost: Mapping[str, Any] | None) -> dict[str, str]:
    if cost is None:
        return {}
    mine, plain = cost["milliseconds"], cost["cross_entropy_milliseconds"]
    times = cost["times_cross_entropy"]
    said = f"a step took {times:.2g} × one of plain cross-entropy ({mine:.3g} ms against {plain:.3g} ms)"
    return {"cost": said}


def _steps(
    recipe: Recipe, model: nn.Module, value: Callable[[_Criterion], Tensor], loss: nn.Module
) -> dict[str, Callable[[], object]]:
    """Return steps of cross-entropy, of the recipe's loss, and of the whole recipe, at a rate of zero."""
    optimiser = build_optimiser(recipe.optimiser, model)
    for group in optimiser.param_groups:
        group["lr"] = 0.0
    every_batch = recipe.model_copy(update={"curvature": recipe.curvature.model_copy(update={"every": 1})})
    penalised = build_regularizer(every_batch, model, loss)
    sam = SAM(model, optimiser, rho=recipe.sam.rho)

    def step(criterion: _Criterion) -> None:
        optimiser.zero_grad()
        value(criterion).backward()
        optimiser.step()

    return {
        "cross-entropy": lambda: step(functional.cross_entropy),
        "loss": lambda: step(loss),
        "whole": lambda: sam.step(lambda: value(loss)) if recipe.sam.rho else step(penalised or loss),
    }


def _seconds(steps: Mapping[str, Callable[[], object]], device: torch.device) -> dict[str, list[float]]:
    """Take the steps in turn, for up to 15 rounds or ten seconds after a first one that warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    begun = time.perf_counter()
    for number in range(_ROUNDS + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            if number:
                seconds[name].append(time.perf_counter() - start)
        if number > 2 and time.perf_counter() - begun > _MOST_SECONDS:
            break
    return seconds


class Learner:
    """State that training changes."""

    def __init__(self, fabric: Fabric, job: Job, *, processes: Processes, samples: Samples) -> None:
        self._fabric, self._recipe = fabric, job.recipe
        self._processes, self._samples = processes, samples
        self.model = job.model
        if samples.layout is torch.channels_last:
            to_layout: Any = self.model.to
            to_layout(memory_format=torch.channels_last)
        optimiser = build_optimiser(job.recipe.optimiser, self.model)
        compiles = job.recipe.hardware.compile
        # So that the random numbers of dropout are those of the network that is not compiled.
        options: Any = {"fallback_random": True}
        wrapped: Any = torch.compile(self.model, options=options) if compiles else self.model
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
        """Zero sums of :meth:`learn`, before any batch."""
        extra = 2 * ((self.regularizer is not None) + (self._recipe.optimiser.clip_norm > 0))
        return torch.zeros(3 + extra, dtype=torch.float64)

    @property
    def draws_on(self) -> torch.device:
        """Device of an epoch's random numbers: the GPU only for a captured step."""
        return torch.device("cpu") if self._captured is None else self._processes.device

    def learn(self, rows: Int[Tensor, " B"], *, epoch: int, batch: int) -> Float[Tensor, " K"]:
        """Learn from one batch of an epoch, both from 0; ``rows`` are on :attr:`draws_on`.

        Returns sums over the share of this process: loss, correct answers and samples, or their labelled
        parts. If curvature is penalised, trace and penalised samples follow. If gradients are clipped, the
        gradient's length before that and whether it was clipped follow, for every sample.
        """
        drawn = self._drawn(len(rows), epoch, batch)
        if self._captured is None:
            return self._step(rows, *drawn)
        constants = (self.learning_rate, getattr(self.loss, "gamma", None))  # a schedule changes these
        return self._captured(constants, rows, *drawn)

    def _drawn(self, count: int, epoch: int, batch: int) -> list[Int[Tensor, "B K"]]:
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
        yield from self.model.parameters()
        yield from self.model.buffers()
        for state in self.optimiser.state.values():
            yield from (each for each in state.values() if isinstance(each, Tensor))

    def _step(self, rows: Int[Tensor, " B"], *drawn: Int[Tensor, "B K"]) -> Float[Tensor, " K"]:
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
        passes: list[tuple[Tensor, Penalised]] = []

        def backward() -> Tensor:
            passes.append(self._backward(self._samples.prepare(inputs), targets, scale))
            return passes[-1][1].loss

        _ = backward() if self.sam is None else self.sam.gradients(backward)
        length: Tensor | None = None
        if clip > 0:
            length = self._fabric.clip_gradients(
                self.module, self.optimiser, max_norm=clip, error_if_nonfinite=False
            )
        self.optimiser.step()
        self.optimiser.zero_grad()
        sums = self._sums(*passes[0], targets)
        if clip == 0:
            return sums
        # Some strategies do not tell the length.
        length = torch.full_like(sums[0], math.nan) if length is None else length.detach().to(sums)
        clipped = torch.where(length.isnan(), length, (length > clip).to(sums))
        return torch.cat([sums, torch.stack([length, clipped]) * sums[2]])

    def _backward(self, inputs: Tensor, labels: Tensor, scale: float) -> tuple[Tensor, Penalised]:
        """Return the logits, and the loss with its penalty."""
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
        return logits.detach(), found

    def _check_compiled(self, inputs: Tensor, labels: Tensor) -> None:
        """Check each batch size once, since the compiler makes code for each."""
        check_compiled(
            self.model,
            lambda: self.loss(logits_of(self._fabric, self.model, inputs), labels),
            lambda: self.loss(self.module(inputs), labels),
            batch_size=len(inputs),
        )
        self._checked.add(len(inputs))

    def _sums(self, logits: Tensor, found: Penalised, labels: Tensor) -> Float[Tensor, " K"]:
        right = right_answers(logits, labels).sum()
        size = torch.full((), len(labels), device=self._processes.device)
        sums = [found.loss.detach().double() * len(labels), right.double(), size.double()]
        if self.regularizer is not None:
            seen = size.double() * float(found.trace is not None)
            mean = torch.zeros_like(seen) if found.trace is None else found.trace.detach().double()
            sums += [mean * size.double(), seen]
        return torch.stack(sums)

    def cost(self, rows: Int[Tensor, " B"]) -> dict[str, Any] | None:
        """Return median milliseconds per step of the recipe and of plain cross-entropy, on one batch.

        A copy of the network takes the steps, in this process alone; None if it cannot be copied, or if the
        recipe adds nothing to the loss. A penalty on one of k batches counts as its mean over k.
        """
        recipe, device = self._recipe, self._processes.device
        if self.regularizer is None and self.sam is None:
            return None
        given, labels = self._samples.take("train", self._processes.share(rows))
        inputs = middle(self._samples.prepare(given), recipe.data.crop)
        labels = labels_of_parts(self.model, given, labels)
        try:
            model, loss = copy.deepcopy(self.model), copy.deepcopy(self.loss)
        except (RuntimeError, TypeError, NotImplementedError):
            return None
        for parameter in model.parameters():
            parameter.grad = None
        model.train()

        def value(criterion: _Criterion) -> Tensor:
            with sdpa_kernel(SDPBackend.MATH):
                logits = logits_of(self._fabric, model, inputs)
            return criterion(logits, labels)

        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            seconds = _seconds(_steps(recipe, model, value, loss), device)
        found = {name: 1e3 * statistics.median(times) for name, times in seconds.items()}
        every = recipe.curvature.every if recipe.curvature.weight else 1
        mine, plain = (found["whole"] + (every - 1) * found["loss"]) / every, found["cross-entropy"]
        return {
            "milliseconds": mine,
            "cross_entropy_milliseconds": plain,
            "times_cross_entropy": mine / plain if plain else math.inf,
            "batch_size": len(labels),
            "threads": torch.get_num_threads(),
            "rounds": len(seconds["whole"]),
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": on_cpu(self.model.state_dict()),
            "optimiser": self.optimiser.state_dict(),
            "loss": self.loss.state_dict(),
            "loss_attributes": _attributes_of(self.loss),
            "penalised_batches": 0 if self.regularizer is None else self.regularizer.calls,
            "precision": self._fabric.strategy.precision.state_dict(),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        self.model.load_state_dict(saved["model"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.loss.load_state_dict(saved["loss"])
        _restore_attributes(self.loss, saved.get("loss_attributes", {}))
        if self.regularizer is not None:
            self.regularizer.calls = saved["penalised_batches"]
        self._fabric.strategy.precision.load_state_dict(saved["precision"])


def _attributes_of(loss: nn.Module) -> dict[str, dict[str, Any]]:
    """Return what each module has beside parameters and buffers: numbers, texts, tensors, lists of them."""
    plain = vars(nn.Module())
    return {
        place: {
            name: kept
            for name, value in vars(module).items()
            if name not in plain and (kept := _plain(value)) is not _OTHER
        }
        for place, module in loss.named_modules()
    }


def _restore_attributes(loss: nn.Module, saved: Mapping[str, Mapping[str, Any]]) -> None:
    for place, attributes in saved.items():
        module = loss.get_submodule(place)
        for name, value in attributes.items():
            before = getattr(module, name, None)
            setattr(module, name, value.to(before.device) if isinstance(before, Tensor) else value)


_OTHER = object()


def _plain(value: object) -> Any:
    """Return a copy that a checkpoint can hold; else ``_OTHER``."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        parts = [_plain(each) for each in cast("Sequence[object]", value)]
        return _OTHER if any(each is _OTHER for each in parts) else type(value)(parts)
    return value if isinstance(value, (bool, int, float, str, type(None))) else _OTHER


def on_cpu(state: Mapping[str, Any], *, copied: bool = False) -> dict[str, Any]:
    return {
        name: value.detach().to("cpu", copy=copied) if isinstance(value, Tensor) else value
        for name, value in state.items()
    }
