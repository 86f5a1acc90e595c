"""The training loop: batches, epochs, measurements and checkpoints."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from calibrant._math.errors import ConvergenceError, InputError
from calibrant._math.files import atomic_write
from calibrant._math.shapes import Float, Int
from calibrant_lab.data.table import evenly
from calibrant_lab.models import last_linear
from calibrant_lab.training import epoch_metrics, seeds
from calibrant_lab.training.data import Job
from calibrant_lab.training.learner import Learner, on_cpu
from calibrant_lab.training.loss import FollowsConfidences, FollowsEpochs
from calibrant_lab.training.processes import Interruption, Processes
from calibrant_lab.training.run import BEST, CHECKPOINT_FORMAT
from calibrant_lab.training.samples import Inference, Samples, batches_in, least_batch, network_shape
from calibrant_lab.training.schedule import learning_rate

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass
class State:
    """Progress of a training."""

    sums: Float[Tensor, " K"]  # sums of :meth:`Learner.learn` over the current epoch
    epoch: int = 0  # completed epochs
    batch: int = 0  # completed batches of the current one
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    best: dict[str, Any] | None = None
    """Number and NLL (or accuracy) of the best epoch so far, with its weights where kept."""
    stopped: bool = False  # true if patience ran out


_TELL_EVERY = 0.1  # seconds; asking for the loss makes a GPU wait


class Engine:
    """Role of one process in carrying out a recipe."""

    def __init__(self, fabric: Fabric, job: Job) -> None:
        self.job, self.recipe = job, job.recipe
        self.processes = Processes(fabric)
        self.samples = Samples(job, fabric.device)
        self.learner = Learner(fabric, job, processes=self.processes, samples=self.samples)
        self.inference = Inference(
            fabric, job, model=self.learner.model, processes=self.processes, samples=self.samples
        )
        self.state = State(sums=self.learner.no_sums)
        self._recorded = "train"  # the training samples that dynamics are recorded of
        if 0 < self.recipe.record.samples < len(job.dataset.train):
            self._recorded = "recorded"
            rows = evenly(len(job.dataset.train), self.recipe.record.samples)
            self.samples.add("recorded", job.dataset.train.rows(rows, memory=0))
        torch.manual_seed(seeds.derived(self.recipe.seed, seeds.PROCESS, self.processes.rank))

    def restore(self) -> None:
        """Resume from a checkpoint, if any; refuse one for other data."""
        job, learner, processes = self.job, self.learner, self.processes
        saved = job.folder.load_checkpoint()
        if saved is None:
            if processes.first:
                job.folder.remove_results()  # those of a training whose checkpoint was removed
            return
        if saved["data_sha256"] != job.sha256:
            raise InputError(
                f"{job.folder.path} was trained on other data than {job.dataset.name} holds now; "
                "choose another --out."
            )
        learner.load_state_dict(saved)
        rank, sums = processes.rank, saved["sums"]
        as_many = len(sums) == processes.count
        if as_many:
            torch.set_rng_state(saved["random"][rank])
            if processes.device.type == "cuda" and saved["random_cuda"] is not None:
                torch.cuda.set_rng_state(saved["random_cuda"][rank])
        self.state = State(
            # Only the total counts: where the number of processes has changed, the first takes it all.
            sums=sums[rank] if as_many else sums.sum(dim=0) * float(rank == 0),
            **{name: saved[name] for name in ("epoch", "batch", "history", "best", "stopped")},
        )

    def save(self) -> None:
        job, state, learner, processes = self.job, self.state, self.learner, self.processes
        random = processes.stacked(torch.get_rng_state())
        on_gpu = processes.device.type == "cuda"
        random_cuda = processes.stacked(torch.cuda.get_rng_state()) if on_gpu else None
        sums = processes.stacked(state.sums)
        if not processes.first:
            return
        checkpoint = {
            "format": CHECKPOINT_FORMAT,
            "data_sha256": job.sha256,
            "input_shape": list(network_shape(job.recipe, job.dataset)),
            "num_classes": job.dataset.num_classes,
            "vectors_shape": None if job.dataset.vectors is None else list(job.dataset.vectors.shape),
            **vars(state),
            "sums": sums,
            **learner.state_dict(),
            "random": random,
            "random_cuda": random_cuda,
        }
        with atomic_write(job.folder.checkpoint) as temporary:
            torch.save(checkpoint, temporary)

    def fit(self) -> bool:
        """Train to the end, and take the weights to keep; return False on Ctrl-C. Both save everything."""
        with Interruption() as interruption:
            while not self.finished:
                if not self._epoch(interruption):
                    self.save()
                    return False
                self._close_epoch()
        best = self.state.best
        if self.recipe.training.keep == "best" and best is not None:
            self.learner.model.load_state_dict(best["model"])
        return True

    @property
    def finished(self) -> bool:
        return self.state.stopped or self.state.epoch >= self.recipe.training.epochs

    def batches(self, epoch: int) -> list[Int[Tensor, " B"]]:
        """Return each batch's samples for all processes, by seed and epoch."""
        drawn_on = self.learner.draws_on
        source = seeds.generator(self.recipe.seed, seeds.ORDER, epoch, device=drawn_on)
        order = torch.randperm(self.samples.count("train"), generator=source, device=drawn_on)
        return batches_in(order, self.recipe, least=least_batch(self.learner.model, self.processes.count))

    def _epoch(self, interruption: Interruption) -> bool:
        """Run the rest of an epoch's batches; return False if interrupted between two."""
        epoch, settings, learner = self.state.epoch, self.recipe, self.learner
        if isinstance(learner.loss, FollowsEpochs):
            learner.loss.step(epoch)
        learner.learning_rate = learning_rate(
            settings.schedule,
            base=settings.optimiser.learning_rate,
            epoch=epoch,
            epochs=settings.training.epochs,
            losses=[row["calibration_nll"] for row in self.state.history],
        )
        learner.module.train()
        batches = self.batches(epoch)
        self.samples.plan("train", [self.processes.share(rows) for rows in batches[self.state.batch :]])
        told = time.monotonic()
        for number in range(self.state.batch, len(batches)):
            sums = learner.learn(batches[number], epoch=epoch, batch=number)
            self.state.sums = self.state.sums.to(sums.device) + sums
            self.state.batch = number + 1
            if self.processes.first and time.monotonic() - told > _TELL_EVERY:
                loss, _, count, *_ = self.state.sums.tolist()
                self.job.listener.batch(
                    epoch=epoch + 1, fraction=(number + 1) / len(batches), loss=loss / count
                )
                told = time.monotonic()
            if self.processes.any(interruption.requested):
                return False
        return True

    def _close_epoch(self) -> None:
        """Measure held-out samples, adapt the loss, save, and inform the listener."""
        state, recipe = self.state, self.recipe
        loss, right, count, *more = self.processes.total(state.sums).tolist()
        logits = self.inference.logits("calibration")
        if not math.isfinite(loss) or not bool(torch.isfinite(logits).all()):
            raise _diverged(f"in epoch {state.epoch + 1}")
        row: dict[str, Any] = {
            "epoch": state.epoch + 1,
            "learning_rate": self.learner.learning_rate,
            "train_loss": loss / count,
            "train_accuracy": right / count,
        }
        if self.learner.regularizer is not None:
            trace, penalised, *more = more
            row["train_trace"] = _ratio(trace, penalised)
        if more:
            row |= zip(("gradient_norm", "clipped"), (_ratio(each, count) for each in more), strict=True)
        labels = self.job.dataset.calibration.labels
        measure = (
            epoch_metrics.multilabel_epoch_metrics
            if self.job.dataset.multilabel
            else epoch_metrics.epoch_metrics
        )
        found = measure(logits, labels, num_bins=recipe.evaluation.num_bins)
        row |= {f"calibration_{name}": value for name, value in found.items()}
        row["last_layer_norm"] = self._last_layer_norm()
        if recipe.training.keep_by == "loss":
            with torch.no_grad():
                given = (each.to(self.processes.device) for each in (logits, labels))
                row["calibration_loss"] = _ratio(float(self.learner.loss(*given)), 1)
        if recipe.record.dynamics:
            row |= self._dynamics()
        if isinstance(self.learner.loss, FollowsConfidences):
            self._let_follow(self.learner.loss, logits, row)
        row = self.processes.of_first(row)  # so that all processes stop, or continue, together
        state.epoch, state.batch, state.sums = state.epoch + 1, 0, torch.zeros_like(state.sums)
        state.history.append(row)
        self._compare_with_best(row)
        self.save()
        if self.processes.first:
            self.job.folder.append_row(row)
            self.job.listener.epoch(row)

    def _let_follow(
        self, loss: FollowsConfidences, logits: Float[Tensor, "N C"], row: dict[str, Any]
    ) -> None:
        labels = self.job.dataset.calibration.labels
        if self.job.dataset.policy is not None:
            logits, labels = self.inference.logits("policy"), self.job.dataset.policy.labels
        loss.update(*(each.to(self.processes.device) for each in epoch_metrics.top_labels(logits, labels)))
        gammas = getattr(loss, "gammas", None)
        if isinstance(gammas, Tensor):
            row["gammas"] = gammas.tolist()

    def _last_layer_norm(self) -> float | None:
        layer = last_linear(self.learner.model)
        return None if layer is None else float(layer.weight.detach().double().norm())

    def _dynamics(self) -> dict[str, Any]:
        """Return this epoch's dynamics; selected epochs also get a file."""
        record, epochs = self.recipe.record, self.recipe.training.epochs
        epoch = self.state.epoch + 1
        chosen = epoch in (record.epochs or epoch_metrics.quarters(epochs))
        if epoch % record.every and epoch != epochs and not chosen:
            return {}
        recorded = {"train": self._recorded, "test": "test"}
        logits = {name: self.inference.logits(part) for name, part in recorded.items()}
        labels = {name: self.samples.labels(part) for name, part in recorded.items()}
        found: dict[str, Any] = {
            name: epoch_metrics.dynamics_of(values, labels[name], num_bins=self.recipe.evaluation.num_bins)
            for name, values in logits.items()
        }
        found["last_layer_norm"] = self._last_layer_norm()
        if chosen:
            norms = epoch_metrics.last_layer_gradient_norms(self.inference, self.learner.loss, self._recorded)
            if self.processes.first:
                tables = {
                    name: epoch_metrics.bins_of(values, labels[name]) for name, values in logits.items()
                }
                self.job.folder.write_snapshot(epoch, tables, norms)
        return {"dynamics": found}

    def _compare_with_best(self, row: dict[str, Any]) -> None:
        """Track the best epoch, and stop when it is too long ago."""
        state, training = self.state, self.recipe.training
        by = training.keep_by
        key, sign = BEST[by]
        value = row[key]
        if value is not None and (state.best is None or sign * value < sign * state.best[by]):
            state.best = {"epoch": state.epoch, by: value}
            if training.keep == "best":
                state.best["model"] = on_cpu(self.learner.model.state_dict(), copied=True)
        best_epoch = 0 if state.best is None else state.best["epoch"]
        state.stopped = 0 < training.patience <= state.epoch - best_epoch

    def final_logits(self, name: str) -> Float[Tensor, "N C"]:
        logits = self.inference.final_logits(name)
        if not bool(torch.isfinite(logits).all()):
            raise _diverged(f"by its last epoch, as the {name} samples show")
        return logits


def _diverged(when: str) -> ConvergenceError:
    return ConvergenceError(
        f"the training diverged {when}: the loss or the logits are not finite; "
        "lower optimiser.learning_rate or set optimiser.clip_norm."
    )


def _ratio(total: float, count: float) -> float | None:
    mean = total / count if count else math.nan
    return mean if math.isfinite(mean) else None
