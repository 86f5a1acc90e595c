"""Runs as jobs of Slurm, through submitit; or as processes of this machine, to try that."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from calibrant._math.errors import InputError
from calibrant._math.worker_processes import available_cores, changed_environment, pinned_threads
from calibrant_lab.sweep.engines.engine import Ends, Engine, Function, Order, Work

_JOBS = 100
"""How many jobs a cluster is given at once where ``jobs`` does not say."""
_TIMEOUTS = 1000
"""How often a run that outlasts its job is put into the queue again."""
_GRACE = 30.0
"""Seconds until jobs that were cancelled are no longer waited for."""


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

    def __init__(
        self,
        *,
        jobs: int | None = None,
        cluster: str = "",
        partition: str = "",
        minutes: int = 60,
        runs: int = 1,
        memory: float = 0,
        folder: str = "submitit",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(jobs=jobs)
        for name, value in (("runs", runs), ("minutes", minutes)):
            if value < 1:
                raise InputError(f"`{name}` must be at least 1; got {value}.")
        if cluster not in {"", "slurm", "local"}:
            raise InputError(f"`cluster` must be slurm or local; got {cluster!r}.")
        self._cluster, self.runs, self._folder = cluster, runs, folder
        self._settings: dict[str, Any] = {"timeout_min": minutes, **(more or {})}
        if partition:
            self._settings["slurm_partition"] = partition
        if memory:
            self._settings["mem_gb"] = memory
        self._gpus = 0
        self._executor: Any = None
        self._jobs: list[Any] = []

    def _fitting(self, orders: Sequence[Order]) -> int:
        is_local, needs = self._cluster == "local", [(each.item.task, each.item.settings) for each in orders]
        used = [task.gpus(known) for task, known in needs if not is_local or task.needs_gpu(known)]
        self._gpus = max(used, default=0)
        return available_cores() // self.threads if is_local else _JOBS

    def submit(self, function: Function, /, *orders: Order) -> Future[Ends]:
        """As a job, which has the face of a future."""
        return self.submit_all(function, [orders])[0]

    def submit_all(self, function: Function, chunks: Sequence[Sequence[Order]]) -> Sequence[Future[Ends]]:
        """As one array of jobs."""
        self._executor = self._executor or self._made()
        job = _Job(function, str(Path.cwd()), self.threads)
        with changed_environment(pinned_threads(self.threads)), self._executor.batch():
            jobs = [self._executor.submit(job, *orders) for orders in chunks]
        self._jobs += jobs
        return jobs

    def wait(self, futures: Collection[Future[Ends]], seconds: float) -> Collection[Future[Ends]]:
        """By looking now and then."""
        done = [each for each in futures if each.done()]
        if not done:
            time.sleep(min(seconds, 0.2) if self._executor.cluster == "local" else max(seconds, 5.0))
        return done

    def reason(self, future: Future[Ends], error: Exception) -> str:
        """With the job's log."""
        _ = error
        job: Any = future
        return f"its job {job.job_id} ended as {job.state}; its log is {job.paths.stderr}."

    def shutdown(self) -> None:
        """Cancel what is queued or runs."""
        jobs, self._jobs = [each for each in self._jobs if not each.done()], []
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
        try:
            executor = submitit.AutoExecutor(
                folder=Path(self._folder).absolute(),
                cluster=self._cluster or None,
                slurm_max_num_timeout=_TIMEOUTS,
            )
            executor.update_parameters(
                cpus_per_task=self.threads, gpus_per_node=self._gpus, name="calibrant", **self._settings
            )
        except (RuntimeError, NameError, TypeError, ValueError) as error:
            raise InputError(f"submitit refuses: {' '.join(str(error).split())}") from error
        return executor


class _Job(Work):
    """Work that is queued again where its time is over."""

    def checkpoint(self, *orders: Order) -> Any:
        """Called by submitit shortly before the end: the same again, which goes on from the last epoch."""
        submitit: Any = import_module("submitit")
        return submitit.helpers.DelayedSubmission(self, *orders)
