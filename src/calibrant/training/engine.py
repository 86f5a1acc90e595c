"""The loop: batches, epochs, what is watched after each, and saving so that little is ever lost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from calibrant._math.errors import ConvergenceError, InputError
from calibrant._math.files import atomic_write
from calibrant.curvature import SAM, Penalised
from calibrant.data import Augmentation, Dataset, Part, Preparation, build_augmentation
from calibrant.data.prepare import to_unit
from calibrant.models import last_linear
from calibrant.training import seeds
from calibrant.training.dynamics import bins_of, dynamics_of, quarters
from calibrant.training.interruption import Interruption
from calibrant.training.judgement import judge, top_labels
from calibrant.training.listener import Listener
from calibrant.training.recipe import Recipe
from calibrant.training.recipe_sections import DataSection
from calibrant.training.regularised import build_regularizer, measured_cost
from calibrant.training.run import CHECKPOINT_FORMAT, RunFolder
from calibrant.training.schedule import build_optimiser, learning_rate

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from lightning_fabric import Fabric

_TELL_EVERY = 0.1  # seconds; asking for the loss makes a GPU wait


@runtime_checkable
class FollowsEpochs(Protocol):
    """A loss that changes with the epoch."""

    def step(self, epoch: int) -> None:
        """An epoch begins; the first is 0."""


@runtime_checkable
class FollowsConfidences(Protocol):
    """A loss that changes with what held-out samples show."""

    def update(self, confidences: Tensor, correct: Tensor) -> None:
        """An epoch is over, and this is how sure and how right the network is."""


@dataclass
class State:
    """How far the training is."""

    epoch: int = 0
    """Completed epochs."""
    batch: int = 0
    """Completed batches of the present one."""
    sums: Float[Tensor, " K"] = field(default_factory=lambda: torch.zeros(3, dtype=torch.float64))
    """Of the present epoch and this process: loss, correct answers, samples; then trace and penalised samples
    where curvature is penalised."""
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    best: dict[str, Any] | None = None
    """Epoch and NLL after temperature scaling of the best epoch so far; its weights, if they are wanted."""
    stopped: bool = False
    """Whether patience ran out."""


class _Pass(NamedTuple):
    """A batch that went forward and backward."""

    logits: Tensor
    found: Penalised


@dataclass(frozen=True, kw_only=True)
class Job:
    """All that a process needs to take part; picklable if the listener is."""

    recipe: Recipe
    dataset: Dataset
    foreign: Part | None
    """Samples of another kind, which the finished network is shown."""
    data_sha256: str
    model: nn.Module
    loss: nn.Module
    folder: RunFolder
    listener: Listener
    command: str | None


class Engine:
    """One process's part in carrying out a recipe."""

    def __init__(self, fabric: Fabric, job: Job) -> None:
        self.fabric, self.job, self.recipe = fabric, job, job.recipe
        hardware = job.recipe.hardware
        self.device = fabric.device
        self.first = fabric.global_rank == 0
        self.model = job.model
        self._layout = torch.contiguous_format
        if hardware.channels_last and len(job.dataset.input_shape) == 3:
            self._layout = torch.channels_last
            to_layout: Any = self.model.to
            to_layout(memory_format=torch.channels_last)
        optimiser = build_optimiser(job.recipe.optimiser, self.model.parameters())
        wrapped: Any = torch.compile(self.model) if hardware.compile else self.model
        self.module, self.optimiser = fabric.setup(wrapped, optimiser)
        self.loss = job.loss.to(self.device)
        self.preparation = preparation(job.recipe.data, job.dataset).to(self.device)
        self.augmentations: tuple[Augmentation, ...] = build_augmentation(
            job.recipe.data.augment, job.dataset.input_shape
        )
        place = self.device if hardware.resident else torch.device("cpu")
        self.parts = {name: part.to(place) for name, part in job.dataset.parts.items()}
        if job.foreign is not None:
            self.parts["foreign"] = job.foreign.to(place)
        self.regularizer = build_regularizer(self.recipe, self.model, self.loss, rank=fabric.global_rank)
        rho = self.recipe.sam.rho
        self.sam = SAM(self.model, self.optimiser, rho=rho) if rho > 0 else None
        self.state = State(sums=torch.zeros(3 if self.regularizer is None else 5, dtype=torch.float64))
        torch.manual_seed(seeds.derived(self.recipe.seed, seeds.PROCESS, fabric.global_rank))

    # ------------------------------------------------------------------------------------------- the loop

    def fit(self) -> bool:
        """Train to the end; False if Ctrl-C came first. Either way everything is saved."""
        with Interruption() as interruption:
            while not self.finished:
                if not self._epoch(interruption):
                    self.save()
                    return False
                self._close_epoch()
        return True

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        return self.state.stopped or self.state.epoch >= self.recipe.training.epochs

    def _epoch(self, interruption: Interruption) -> bool:
        """The batches of an epoch that are not done yet; False if interrupted between two."""
        epoch, settings = self.state.epoch, self.recipe
        if isinstance(self.loss, FollowsEpochs):
            self.loss.step(epoch)
        rate = learning_rate(
            settings.schedule,
            base=settings.optimiser.learning_rate,
            epoch=epoch,
            epochs=settings.training.epochs,
        )
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.module.train()
        batches = self._batches(epoch)
        told = time.monotonic()
        for number in range(self.state.batch, len(batches)):
            self._step(batches[number], number)
            self.state.batch = number + 1
            if self.first and time.monotonic() - told > _TELL_EVERY:
                loss, _, count, *_ = self.state.sums.tolist()
                self.job.listener.batch(
                    epoch=epoch + 1, fraction=(number + 1) / len(batches), loss=loss / count
                )
                told = time.monotonic()
            if self._agreed(interruption.requested):
                return False
        return True

    def _batches(self, epoch: int) -> list[Int[Tensor, " B"]]:
        """The samples of each batch, of all processes together: a function of seed and epoch."""
        order = torch.randperm(
            len(self.parts["train"]), generator=seeds.generator(self.recipe.seed, seeds.ORDER, epoch)
        )
        batches = list(order.split(self.recipe.training.batch_size))
        # Batch normalisation needs two samples in each process.
        if len(batches) > 1 and len(batches[-1]) < 2 * self.fabric.world_size:
            batches.pop()
        return batches

    def _step(self, rows: Int[Tensor, " B"], number: int) -> None:
        """Learn from one batch, of which this process takes its share."""
        fabric, clip = self.fabric, self.recipe.optimiser.clip_norm
        share = slice(fabric.global_rank, None, fabric.world_size)
        inputs, labels = self._taken("train", rows[share])
        if self.augmentations:
            source = seeds.generator(self.recipe.seed, seeds.AUGMENTATION, self.state.epoch, number)
            for augmentation in self.augmentations:
                inputs = augmentation.apply(inputs, augmentation.draw(len(rows), source)[share])
        # Gradients are averaged over the processes, whose shares may differ by one sample.
        scale = len(labels) * fabric.world_size / len(rows)
        if self.recipe.reduction == "sum":
            scale *= len(rows)
        passes: list[_Pass] = []

        def backward() -> Tensor:
            passes.append(self._backward(self._prepared(inputs), labels, scale))
            return passes[-1].found.loss

        _ = backward() if self.sam is None else self.sam.gradients(backward)
        if clip > 0:
            fabric.clip_gradients(self.module, self.optimiser, max_norm=clip, error_if_nonfinite=False)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self._count(passes[0], labels)

    def _backward(self, inputs: Tensor, labels: Tensor, scale: float) -> _Pass:
        """Gradients of a batch, of which this is the process's share."""
        if self.regularizer is None:
            logits = self.module(inputs)
            loss: Tensor = self.loss(logits, labels)
            found = Penalised(loss, loss, None)
        else:
            with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
                logits = self.module(inputs)
            found = self.regularizer.penalised(logits, labels)
        self.fabric.backward(found.total * scale)
        return _Pass(logits.detach(), found)

    def _count(self, done: _Pass, labels: Tensor) -> None:
        """Add a batch to the sums of the epoch."""
        right = (done.logits.argmax(dim=1) == labels).sum()
        size = torch.tensor(len(labels), device=self.device)
        parts = [done.found.loss.detach().double() * len(labels), right.double(), size.double()]
        if self.regularizer is not None:
            trace = done.found.trace
            seen = size.double() * float(trace is not None)
            mean = torch.zeros_like(seen) if trace is None else trace.detach().double()
            parts += [mean * size.double(), seen]
        self.state.sums = self.state.sums.to(self.device) + torch.stack(parts)

    def cost(self) -> dict[str, Any] | None:
        """What a step takes against plain cross-entropy; None where the recipe adds nothing to that."""
        if self.regularizer is None and self.sam is None:
            return None
        rows = self._batches(0)[0][self.fabric.global_rank :: self.fabric.world_size]
        inputs, labels = self._taken("train", rows)

        def run(model: nn.Module, samples: Tensor) -> Tensor:
            with self.fabric.autocast(), sdpa_kernel(SDPBackend.MATH):
                logits = model(self.fabric.strategy.precision.convert_input(samples))
            return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()

        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            return measured_cost(
                self.recipe, self.model, self.loss, run=run, inputs=self._prepared(inputs), labels=labels
            )

    def _close_epoch(self) -> None:
        """Look at the held-out samples, let the loss follow, save, tell."""
        state, recipe, fabric = self.state, self.recipe, self.fabric
        sums: Any = state.sums if fabric.world_size == 1 else fabric.all_reduce(state.sums, reduce_op="sum")
        loss, right, count, *penalised = sums.tolist()
        logits = self.logits("calibration")
        if not math.isfinite(loss) or not bool(torch.isfinite(logits).all()):
            raise ConvergenceError(
                f"the training diverged in epoch {state.epoch + 1}: the loss or the logits are not finite; "
                "lower optimiser.learning_rate or set optimiser.clip_norm, and use another --out."
            )
        row: dict[str, Any] = {
            "epoch": state.epoch + 1,
            "learning_rate": float(self.optimiser.param_groups[0]["lr"]),
            "train_loss": loss / count,
            "train_accuracy": right / count,
        }
        if penalised:
            row["train_trace"] = _ratio(*penalised)
        found = judge(logits, self.job.dataset.calibration.labels, num_bins=recipe.evaluation.num_bins)
        row |= {f"calibration_{name}": value for name, value in found.items()}
        if recipe.record.dynamics:
            row |= self._dynamics()
        if isinstance(self.loss, FollowsConfidences):
            self._let_follow(self.loss, logits, row)
        row = fabric.broadcast(row)  # so that all processes stop, or go on, together
        state.epoch, state.batch, state.sums = state.epoch + 1, 0, torch.zeros_like(state.sums)
        state.history.append(row)
        self._compare_with_best(row["calibration_nll_after_temperature"])
        self.save()
        if self.first:
            self.job.folder.append_row(row)
            self.job.listener.epoch(row)

    def _let_follow(
        self, loss: FollowsConfidences, logits: Float[Tensor, "N C"], row: dict[str, Any]
    ) -> None:
        """Give AdaFocal and its like what a split shows: its own, or the calibration split."""
        labels = self.job.dataset.calibration.labels
        if self.job.dataset.policy is not None:
            logits, labels = self.logits("policy"), self.job.dataset.policy.labels
        loss.update(*(each.to(self.device) for each in top_labels(logits, labels)))
        gammas = getattr(loss, "gammas", None)
        if isinstance(gammas, Tensor):
            row["gammas"] = gammas.tolist()

    def _dynamics(self) -> dict[str, Any]:
        """What the recipe wants recorded of this epoch; at chosen ones a file beside the row."""
        record, epochs = self.recipe.record, self.recipe.training.epochs
        epoch = self.state.epoch + 1
        chosen = epoch in (record.epochs or quarters(epochs))
        if epoch % record.every and epoch != epochs and not chosen:
            return {}
        logits = {name: self.logits(name) for name in ("train", "test")}
        parts = self.job.dataset.parts
        found: dict[str, Any] = {
            name: dynamics_of(values, parts[name].labels, num_bins=self.recipe.evaluation.num_bins)
            for name, values in logits.items()
        }
        layer = last_linear(self.model)
        found["last_layer_norm"] = None if layer is None else float(layer.weight.detach().double().norm())
        if chosen:
            norms = self.last_layer_gradients("train")
            if self.first:
                tables = {name: bins_of(values, parts[name].labels) for name, values in logits.items()}
                self.job.folder.write_snapshot(epoch, tables, norms)
        return {"dynamics": found}

    def _compare_with_best(self, nll: float | None) -> None:
        """Remember the best epoch, and stop when it is too long ago."""
        state, training = self.state, self.recipe.training
        if nll is not None and (state.best is None or nll < state.best["nll"]):
            state.best = {"epoch": state.epoch, "nll": nll}
            if training.keep == "best":
                state.best["model"] = _on_cpu(self.model.state_dict(), copied=True)
        best_epoch = 0 if state.best is None else state.best["epoch"]
        state.stopped = 0 < training.patience <= state.epoch - best_epoch

    # --------------------------------------------------------------------------------------- held-out samples

    @torch.no_grad()
    def logits(self, name: str) -> Float[Tensor, "N C"]:
        """Logits of a whole split in the order of its samples, on the CPU of every process."""

        def logits_of(inputs: Tensor, _labels: Tensor) -> Tensor:
            with self.fabric.autocast():
                return self._run(inputs)

        return self._over(name, logits_of, width=self.job.dataset.num_classes)

    def last_layer_gradients(self, name: str) -> Float[Tensor, " N"] | None:
        """Norm of each sample's gradient of the loss by the last layer; None if that is not linear.

        It is the product of the norms of the gradient by the logits and of the layer's input (with a one for
        the bias), so no sample needs a pass of its own.
        """
        layer = last_linear(self.model)
        seen: dict[str, Tensor] = {}
        if layer is None:
            return None

        def look(_layer: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
            seen["input"], seen["output"] = given[0], made

        def norms_of(inputs: Tensor, labels: Tensor) -> Tensor:
            with torch.no_grad(), self.fabric.autocast():
                logits = self._run(inputs)
            if seen["output"].shape != logits.shape or not torch.equal(seen["output"].to(logits), logits):
                return torch.full((len(labels), 1), math.nan, device=self.device)
            leaf = logits.detach().requires_grad_()
            (slopes,) = torch.autograd.grad(self.loss(leaf, labels) * len(labels), leaf)
            squares = seen["input"].double().square().sum(dim=1) + float(
                "bias" in dict(layer.named_parameters())
            )
            return (slopes.double().norm(dim=1) * squares.sqrt())[:, None].float()

        handle = layer.register_forward_hook(look)
        try:
            norms = self._over(name, norms_of, width=1)[:, 0]
        finally:
            handle.remove()
        return None if bool(norms.isnan().any()) else norms

    def _over(
        self, name: str, compute: Callable[[Tensor, Tensor], Float[Tensor, "n K"]], *, width: int
    ) -> Float[Tensor, "N K"]:
        """Something of every sample of a split, in order, on the CPU of every process.

        Each batch is one process's, so that the numbers do not depend on how many there are.
        """
        rank, world = self.fabric.global_rank, self.fabric.world_size
        total, size = len(self.parts[name]), self.recipe.evaluation.batch_size
        batches = list(torch.arange(total).split(size))
        self._share_buffers()
        self.model.eval()
        done: list[Tensor] = []
        for rows in batches[rank::world]:
            inputs, labels = self._taken(name, rows)
            done.append(compute(self._prepared(inputs), labels))
        if world == 1:
            return torch.cat(done).cpu()
        # Every process gives as many rows: its batches, one after the other, and then whatever.
        dtype = torch.float64 if self.recipe.training.precision == "64-true" else torch.float32
        table = torch.zeros((math.ceil(len(batches) / world), size, width), dtype=dtype, device=self.device)
        for place, values in enumerate(done):
            table[place, : len(values)] = values
        # (world, batches, size, K) -> (batches, world, size, K)
        return self._everyones(table).transpose(0, 1).flatten(0, 2)[:total]

    def _run(self, inputs: Tensor) -> Tensor:
        """Logits outside the wrapper, whose processes would wait for each other."""
        converted: Any = self.fabric.strategy.precision.convert_input(inputs)
        logits: Tensor = self.model(converted)
        return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()

    def _share_buffers(self) -> None:
        """Give every process the first one's running statistics; each has seen its own share only."""
        if self.fabric.world_size > 1:
            for buffer in self.model.buffers():
                torch.distributed.broadcast(buffer, src=0)

    def _taken(self, name: str, rows: Int[Tensor, " n"]) -> tuple[Tensor, Tensor]:
        """Some samples, in [0, 1], and their labels, on the device."""
        part = self.parts[name]
        rows = rows.to(part.labels.device)
        return to_unit(part.inputs[rows].to(self.device)), part.labels[rows].to(self.device)

    def _prepared(self, unit: Tensor) -> Tensor:
        prepared = self.preparation(unit)
        return prepared.contiguous(memory_format=self._layout) if prepared.ndim == 4 else prepared

    def use_kept_weights(self) -> None:
        """Put the weights into the network that the recipe says to judge."""
        best = self.state.best
        if self.recipe.training.keep == "best" and best is not None:
            self.model.load_state_dict(best["model"])

    # ------------------------------------------------------------------------------------------------ saving

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        random = self._everyones(torch.get_rng_state())
        random_cuda = self._everyones(torch.cuda.get_rng_state()) if self.device.type == "cuda" else None
        sums = self._everyones(self.state.sums)
        if not self.first:
            return
        checkpoint = {
            "format": CHECKPOINT_FORMAT,
            "data_sha256": self.job.data_sha256,
            "input_shape": list(self.job.dataset.input_shape),
            "num_classes": self.job.dataset.num_classes,
            "epoch": self.state.epoch,
            "batch": self.state.batch,
            "sums": sums,
            "history": self.state.history,
            "best": self.state.best,
            "stopped": self.state.stopped,
            "model": _on_cpu(self.model.state_dict()),
            "optimiser": self.optimiser.state_dict(),
            "loss": self.loss.state_dict(),
            "penalised_batches": 0 if self.regularizer is None else self.regularizer.calls,
            "precision": self.fabric.strategy.precision.state_dict(),
            "random": random,
            "random_cuda": random_cuda,
        }
        with atomic_write(self.job.folder.checkpoint) as temporary:
            torch.save(checkpoint, temporary)

    def restore(self) -> None:
        """Go on from the checkpoint, where there is one.

        Raises:
            InputError: If it was made from other data.
        """
        saved = self.job.folder.load_checkpoint()
        if saved is None:
            return
        if saved["data_sha256"] != self.job.data_sha256:
            raise InputError(
                f"{self.job.folder.path} was trained on other data than {self.job.dataset.name} holds now; "
                "choose another --out."
            )
        rank, world, device = self.fabric.global_rank, self.fabric.world_size, self.device
        sums, random, random_cuda = saved["sums"], saved["random"], saved["random_cuda"]
        as_many = len(sums) == world
        self.state = State(
            epoch=saved["epoch"],
            batch=saved["batch"],
            # Of another number of processes the first takes it all: only the total is ever looked at.
            sums=sums[rank] if as_many else sums.sum(dim=0) * float(rank == 0),
            history=saved["history"],
            best=saved["best"],
            stopped=saved["stopped"],
        )
        self.model.load_state_dict(saved["model"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.loss.load_state_dict(saved["loss"])
        if self.regularizer is not None:
            self.regularizer.calls = saved["penalised_batches"]
        self.fabric.strategy.precision.load_state_dict(saved["precision"])
        if as_many:
            torch.set_rng_state(random[rank])
            if device.type == "cuda" and random_cuda is not None:
                torch.cuda.set_rng_state(random_cuda[rank])

    def _everyones(self, tensor: Tensor) -> Tensor:
        """A tensor of every process, stacked, on the CPU."""
        if self.fabric.world_size == 1:
            return tensor.cpu()[None]
        mine = tensor.to(self.device)
        gathered = [torch.empty_like(mine) for _ in range(self.fabric.world_size)]
        torch.distributed.all_gather(gathered, mine)
        return torch.stack(gathered).cpu()

    def _agreed(self, wish: bool) -> bool:
        """Whether any process wishes it."""
        if self.fabric.world_size == 1:
            return wish
        wishes: Any = self.fabric.all_reduce(torch.tensor(float(wish), device=self.device), reduce_op="sum")
        return bool(wishes > 0)


def preparation(settings: DataSection, dataset: Dataset) -> Preparation:
    """How the recipe wants the samples prepared."""
    channels = dataset.input_shape[0]
    if settings.normalise == "given":
        return Preparation.given(list(settings.mean), list(settings.std), channels)
    return (
        Preparation.fitted(dataset.train.inputs)
        if settings.normalise == "train"
        else Preparation.none(channels)
    )


def class_weights(part: Part, num_classes: int) -> Float[Tensor, " C"]:
    """Weights inverse to the frequency of the classes, with mean one over the samples.

    Raises:
        InputError: If a class has no samples.
    """
    counts = torch.bincount(part.labels, minlength=num_classes)
    if not bool((counts > 0).all()):
        raise InputError(
            f"class {int(counts.argmin())} has no training samples, so classes cannot be balanced."
        )
    return len(part) / (num_classes * counts.float())


def _ratio(total: float, count: float) -> float | None:
    """A mean, or None where there is none."""
    mean = total / count if count else math.nan
    return mean if math.isfinite(mean) else None


def _on_cpu(state: Mapping[str, Any], *, copied: bool = False) -> dict[str, Any]:
    return {
        name: value.detach().to("cpu", copy=copied) if isinstance(value, Tensor) else value
        for name, value in state.items()
    }
