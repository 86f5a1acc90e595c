"""The progress of a training, saved so that a resumed one ends in the same bits as an undisturbed one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant._math.shapes import Float
from calibrant_lab.training.job import Job
from calibrant_lab.training.learner import Learner
from calibrant_lab.training.processes import Processes
from calibrant_lab.training.run import CHECKPOINT_FORMAT
from calibrant_lab.training.views import network_shape


@dataclass
class State:
    """The progress of a training."""

    sums: Float[Tensor, " K"]
    """What :meth:`Learner.learn` returned, summed over the current epoch."""
    epoch: int = 0
    """Completed epochs."""
    batch: int = 0
    """Completed batches of the current one."""
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    best: dict[str, Any] | None = None
    """Number and NLL (or accuracy) of the best epoch so far, with its weights where kept."""
    stopped: bool = False
    """Whether patience ran out."""


def save(job: Job, state: State, learner: Learner, processes: Processes) -> None:
    random = processes.stacked(torch.get_rng_state())
    on_gpu = processes.device.type == "cuda"
    random_cuda = processes.stacked(torch.cuda.get_rng_state()) if on_gpu else None
    sums = processes.stacked(state.sums)
    if not processes.first:
        return
    checkpoint = {
        "format": CHECKPOINT_FORMAT,
        "data_sha256": job.data_sha256,
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


def restore(job: Job, learner: Learner, processes: Processes) -> State:
    """Resume from the checkpoint, or start from the beginning where there is none."""
    saved = job.folder.load_checkpoint()
    if saved is None:
        return State(sums=learner.no_sums)
    if saved["data_sha256"] != job.data_sha256:
        raise InputError(
            f"{job.folder.path} was trained on other data than {job.dataset.name} holds now; "
            "choose another --out."
        )
    learner.load_state_dict(saved)
    rank, sums = processes.rank, saved["sums"]
    # What an earlier version did not add up over a begun epoch is unknown.
    missing = math.nan if saved["batch"] else 0.0
    unknown = sums.new_full((len(sums), len(learner.no_sums) - sums.shape[1]), missing)
    sums = torch.cat([sums, unknown], dim=1)
    as_many = len(sums) == processes.count
    if as_many:
        torch.set_rng_state(saved["random"][rank])
        if processes.device.type == "cuda" and saved["random_cuda"] is not None:
            torch.cuda.set_rng_state(saved["random_cuda"][rank])
    return State(
        # Only the total counts: where the number of processes has changed, the first takes it all.
        sums=sums[rank] if as_many else sums.sum(dim=0) * float(rank == 0),
        **{name: saved[name] for name in ("epoch", "batch", "history", "best", "stopped")},
    )
