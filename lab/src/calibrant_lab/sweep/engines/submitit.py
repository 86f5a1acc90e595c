"""Runs as jobs of Slurm, through submitit; or as processes of this machine, to try that."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.worker_processes import available_cores, changed_environment, pin_threads, pinned_threads
from calibrant_lab.sweep.engines.engine import Ended, Engine, Event, Order
from calibrant_lab.sweep.engines.perform import absolute, attempt

_JOBS = 100
"""How many jobs a cluster is given at once where ``jobs`` does not say."""
_TIMEOUTS = 1000
"""How often a run that outlasts its job is put into the queue again."""


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
        for name, value in (("jobs", 1 if jobs is None else jobs), ("runs", runs), ("minutes", minutes)):
            if value < 1:
                raise InputError(f"`{name}` must be at least 1; got {value}.")
        if cluster not in {"", "slurm", "local"}:
            raise InputError(f"`cluster` must be slurm or local; got {cluster!r}.")
        self._wanted, self._cluster, self._runs, self._folder = jobs, cluster, runs, folder
        self._settings: dict[str, Any] = {"timeout_min": minutes, **(more or {})}
        if partition:
            self._settings["slurm_partition"] = partition
        if memory:
            self._settings["mem_gb"] = memory
        self.jobs = jobs or 1
        self._threads = 1
        self._running: dict[Any, Sequence[Order]] = {}

    def prepare(self, orders: Sequence[Order]) -> None:
        """Find the cores that each run needs."""
        self._threads = max((order.item.task.threads(order.item.settings) for order in orders), default=1)
        fitting = max(1, available_cores() // self._threads) if self._cluster == "local" else _JOBS
        self.jobs = self._wanted or min(fitting, max(1, -(-len(orders) // self._runs)))

    def run(self, orders: Sequence[Order]) -> Generator[Event]:
        """Queue the runs in arrays of jobs, as others end."""
        waiting = deque(orders)
        executor = self._executor(orders)
        look_every = 0.2 if executor.cluster == "local" else 5.0
        try:
            while waiting or self._running:
                self._queue(executor, waiting)
                ready = [job for job in self._running if job.done()]
                for job in ready:
                    yield from _ends(job, self._running.pop(job))
                if not ready:
                    time.sleep(look_every)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancel what is queued or runs."""
        running, self._running = list(self._running), {}
        for job in running:
            job.cancel(check=False)
        until = time.monotonic() + 30
        for job in running:
            while not job.done() and time.monotonic() < until:
                time.sleep(0.05)

    def _executor(self, orders: Sequence[Order]) -> Any:
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
            gpus = max((order.item.task.gpus(order.item.settings) for order in orders), default=0)
            if executor.cluster == "local":
                gpus = max(
                    (gpus * order.item.task.needs_gpu(order.item.settings) for order in orders), default=0
                )
            executor.update_parameters(
                cpus_per_task=self._threads,
                gpus_per_node=gpus,
                name="calibrant",
                **self._settings,
            )
        except (RuntimeError, NameError, TypeError, ValueError) as error:
            raise InputError(f"submitit refuses: {' '.join(str(error).split())}") from error
        return executor

    def _queue(self, executor: Any, waiting: deque[Order]) -> None:
        """As many as there is room for, as one array."""
        chunks: list[list[Order]] = []
        while waiting and len(self._running) + len(chunks) < self.jobs:
            chunks.append([absolute(waiting.popleft()) for _ in islice(waiting.copy(), self._runs)])
        if not chunks:
            return
        with changed_environment(pinned_threads(self._threads)):
            jobs = executor.map_array(Work(self._threads, str(Path.cwd())), chunks)
        self._running.update(zip(jobs, chunks, strict=True))


class Work:
    """What a job does; queued again where its time is over.

    Args:
        threads: For each run.
        folder: In which the sweep was started.
    """

    def __init__(self, threads: int, folder: str) -> None:
        self._threads, self._folder = threads, folder

    def __call__(self, orders: Sequence[Order]) -> list[Ended]:
        """Do the orders."""
        os.chdir(self._folder)
        pin_threads(self._threads)
        return [attempt(order) for order in orders]

    def checkpoint(self, orders: Sequence[Order]) -> Any:
        """Called by submitit shortly before the end: the same again, which goes on from the last epoch."""
        submitit: Any = import_module("submitit")
        return submitit.helpers.DelayedSubmission(self, orders)


def _ends(job: Any, orders: Sequence[Order]) -> list[Ended]:
    """How the runs of a job ended; where the job broke down, all are said to, and the store knows better."""
    try:
        ends: list[Ended] = job.results()[0]
    except Exception:  # submitit's own, whatever its job raised, and what cannot be read
        reason = f"its job {job.job_id} ended as {job.state}; its log is {job.paths.stderr}."
        return [Ended(run=order.item.run, state="died", reason=reason) for order in orders]
    return ends
