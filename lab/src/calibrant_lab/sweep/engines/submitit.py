"""Runs as jobs of Slurm, through submitit; or as processes of this machine, to try that."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from calibrant._math.errors import InputError
from calibrant._math.worker_processes import available_cores, changed_environment, pinned_threads
from calibrant_lab.sweep.engines.engine import Ends, Engine, Function, Work, refuse_below_one
from calibrant_lab.sweep.item import Item

_JOBS = 100
"""How many jobs a cluster is given at once where ``jobs`` does not say."""
_TIMEOUTS = 1000
"""How often a run that outlasts its job is put into the queue again."""
_GRACE = 30.0
"""Seconds for which jobs that were cancelled are waited for."""


@dataclass(kw_only=True, eq=False)
class Submitit(Engine):
    """Jobs of Slurm; one that reaches its time limit is queued again, and goes on from its last epoch.

    Args:
        jobs: How many jobs are queued or running at once; by default 100 on Slurm, and as many as the cores
            hold on this machine.
        cluster: ``"slurm"``, or ``"local"`` for processes of this machine; by default Slurm if it
            is there.
        partition: Of Slurm.
        minutes: Time limit of a job.
        runs: How many runs a job does, one after the other; more where they are short.
        memory: Gigabytes for a job; 0: what the cluster gives.
        folder: Where orders and logs of the jobs go; all nodes must see it.
        more: Further settings of submitit's executor, such as ``{"slurm_account": "me"}``.
    """

    is_here: ClassVar[bool] = False

    cluster: str = ""
    partition: str = ""
    minutes: int = 60
    runs: int = 1
    memory: float = 0
    folder: str = "submitit"
    more: Mapping[str, Any] | None = None
    _gpus: int = field(default=0, init=False)
    _executor: Any = field(default=None, init=False)
    _submitted: list[Any] = field(default_factory=list[Any], init=False)

    def __post_init__(self) -> None:
        refuse_below_one(jobs=self.jobs, runs=self.runs, minutes=self.minutes)
        if self.cluster not in {"", "slurm", "local"}:
            raise InputError(f"`cluster` must be slurm or local; got {self.cluster!r}.")

    def _fitting(self, items: Sequence[Item]) -> int:
        is_local = self.cluster == "local"
        used = [item for item in items if not is_local or item.task.needs_gpu(item.settings)]
        self._gpus = max((item.task.gpus(item.settings) for item in used), default=0)
        return available_cores() // self.threads if is_local else _JOBS

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        """As a job, which has the face of a future."""
        return self.submit_all(function, store, [[*items]])[0]

    def submit_all(self, function: Function, store: str, chunks: Sequence[list[Item]]) -> list[Future[Ends]]:
        """As one array of jobs."""
        self._executor = self._executor or self._made()
        work = Work(function, str(Path.cwd()), self.threads)
        with changed_environment(pinned_threads(self.threads)), self._executor.batch():
            jobs = [self._executor.submit(work, store, *items) for items in chunks]
        self._submitted += jobs
        return jobs

    def wait(self, futures: Collection[Future[Ends]], seconds: float) -> Collection[Future[Ends]]:
        """By looking now and then, and at Slurm less often."""
        _ = seconds
        done = [each for each in futures if each.done()]
        if not done:
            time.sleep(0.2 if self._executor.cluster == "local" else 5.0)
        return done

    def reason(self, future: Future[Ends], error: Exception) -> str:
        """With the job's log."""
        _ = error
        job: Any = future
        return f"its job {job.job_id} ended as {job.state}; its log is {job.paths.stderr}."

    def shutdown(self) -> None:
        """Cancel what is queued or runs."""
        self._executor = None
        jobs, self._submitted = [each for each in self._submitted if not each.done()], []
        for each in jobs:
            each.cancel(check=False)
        until = time.monotonic() + _GRACE
        while not all(each.done() for each in jobs) and time.monotonic() < until:
            time.sleep(0.05)

    def _made(self) -> Any:
        try:
            submitit: Any = import_module("submitit")
        except ImportError as error:
            raise InputError("the engine submitit needs submitit: pip install 'calibrant[slurm]'.") from error
        settings: dict[str, Any] = {"timeout_min": self.minutes, **(self.more or {})}
        if self.partition:
            settings["slurm_partition"] = self.partition
        if self.memory:
            settings["mem_gb"] = self.memory
        try:
            executor = submitit.AutoExecutor(
                folder=Path(self.folder).absolute(),
                cluster=self.cluster or None,
                slurm_max_num_timeout=_TIMEOUTS,
            )
            executor.update_parameters(
                cpus_per_task=self.threads, gpus_per_node=self._gpus, name="calibrant", **settings
            )
        except (RuntimeError, NameError, TypeError, ValueError) as error:
            raise InputError(f"submitit refuses: {' '.join(str(error).split())}") from error
        return executor
