"""Engines for other machines, which also work on this one: tasks of Ray, and jobs of Slurm by submitit."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from calibrant._math.errors import InputError
from calibrant._math.ray_cluster import check_address, connect
from calibrant._math.worker_processes import (
    available_cores,
    changed_environment,
    pin_threads,
    pinned_threads,
)
from calibrant_lab.sweep.engines.engine import Ends, Engine, Function, refuse_below_one
from calibrant_lab.sweep.item import Item

_GRACE = 30.0
"""Seconds that runs have to save what they are doing."""
_OBJECTS = 128 * 2**20
"""Bytes of a local Ray's object store; results go to the store of runs instead."""
_TIMEOUTS = 1000
"""How often Slurm queues a run that outlasts its job."""


@dataclass(frozen=True)
class Work:
    """A function as another machine calls it: in the folder of the sweep, if it is there."""

    function: Function
    folder: str
    threads: int

    def __call__(self, store: str, *items: Item) -> Ends:
        with suppress(OSError):
            os.chdir(self.folder)
        pin_threads(self.threads)
        return self.function(store, *items)

    def checkpoint(self, store: str, *items: Item) -> Any:
        """Called by submitit shortly before a job's time is over; queues the job again, which resumes."""
        return import_module("submitit").helpers.DelayedSubmission(self, store, *items)


@dataclass(kw_only=True, eq=False)
class Ray(Engine):
    """Tasks of Ray, each with the cores that its recipe needs; what a dead machine had is done elsewhere.

    Args:
        jobs: How many at once; by default as many as the cluster holds.
        address: Address of a cluster, as ``"auto"`` on one of its machines; by default that of
            ``RAY_ADDRESS``, and without it a Ray of this machine alone, which is started and ended.
        gpus: Share of a GPU for each device of a run whose recipe may use one, in a cluster that has some.
        memory: Gigabytes to be set aside for each run; 0: none.
    """

    is_here: ClassVar[bool] = False
    ahead: ClassVar[int] = 500  # enough for Ray to add machines

    address: str = ""
    gpus: float = 1.0
    memory: float = 0.0
    _ray: Any = field(default=None, init=False)
    _is_ours: bool = field(default=False, init=False)
    _futures: set[Any] = field(default_factory=set[Any], init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.gpus <= 1:
            raise InputError(f"`gpus` must be from 0 to 1; got {self.gpus}.")
        if self.memory < 0:
            raise InputError(f"`memory` must be at least 0; got {self.memory}.")
        check_address(self.address)
        self.address = self.address or os.environ.get("RAY_ADDRESS", "")

    def _fitting(self, items: Sequence[Item]) -> int:
        """How many the cluster has room for; a Ray of this machine is started by the first run."""
        _ = items
        cores = self._connected().cluster_resources().get("CPU", 1.0) if self.address else available_cores()
        return int(cores // self.threads)

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        """Submit a task that Ray does not repeat: the store knows whether it is to be done again."""
        ray = self._connected()
        threads = max(item.task.threads(item.settings) for item in items)
        has_gpus = ray.cluster_resources().get("GPU", 0) > 0
        gpus = self.gpus * max(item.task.gpus(item.settings) for item in items) if has_gpus else 0
        task = ray.remote(Work.__call__).options(
            num_cpus=threads,
            num_gpus=gpus if gpus < 1 else math.ceil(gpus),
            memory=int(self.memory * 1e9) or None,
            max_retries=0,
            name=items[0].label[:80],
            runtime_env={"env_vars": pinned_threads(threads)},
        )
        future: Any = task.remote(Work(function, str(Path.cwd()), threads), store, *items).future()
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def reason(self, future: Future[Ends], error: Exception) -> str:
        if isinstance(error, self._ray.exceptions.WorkerCrashedError):
            return "its process, or the node it was on, died."
        return super().reason(future, getattr(error, "cause", None) or error)

    def shutdown(self) -> None:
        """Have all save and end, wait for them, end those that did not, and leave the cluster."""
        if self._ray is None:
            return
        running = list(self._futures)
        for future in running:
            self._ray.cancel(future.object_ref)
        try:
            wait_for(running, _GRACE)
        finally:
            for future in self._futures.intersection(running):
                self._ray.cancel(future.object_ref, force=True)
            if self._is_ours:
                self._ray.shutdown()
            self._ray = None

    def _connected(self) -> Any:
        if self._ray is None:
            cores = max(available_cores(), self.threads * (self.jobs or 1))
            self._ray, self._is_ours = connect(self.address, cores=cores, store_bytes=_OBJECTS)
        return self._ray


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
        return available_cores() // self.threads if is_local else 100

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        return self.submit_all(function, store, [[*items]])[0]

    def submit_all(self, function: Function, store: str, chunks: Sequence[list[Item]]) -> list[Future[Ends]]:
        self._executor = self._executor or self._made()
        work = Work(function, str(Path.cwd()), self.threads)
        with changed_environment(pinned_threads(self.threads)), self._executor.batch():
            jobs = [self._executor.submit(work, store, *items) for items in chunks]
        self._submitted += jobs
        return jobs

    def wait(self, futures: Collection[Future[Ends]], seconds: float) -> Collection[Future[Ends]]:
        """Look for finished futures now and then, at Slurm less often."""
        _ = seconds
        done = [each for each in futures if each.done()]
        if not done:
            time.sleep(0.2 if self._executor.cluster == "local" else 5.0)
        return done

    def reason(self, future: Future[Ends], error: Exception) -> str:
        _ = error
        job: Any = future
        return f"its job {job.job_id} ended as {job.state}; its log is {job.paths.stderr}."

    def shutdown(self) -> None:
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
        settings |= {"slurm_partition": self.partition} if self.partition else {}
        settings |= {"mem_gb": self.memory} if self.memory else {}
        parameters = {"cpus_per_task": self.threads, "gpus_per_node": self._gpus, "name": "calibrant"}
        where = {"folder": Path(self.folder).absolute(), "cluster": self.cluster or None}
        try:
            executor = submitit.AutoExecutor(**where, slurm_max_num_timeout=_TIMEOUTS)
            executor.update_parameters(**parameters, **settings)
        except (RuntimeError, NameError, TypeError, ValueError) as error:
            raise InputError(f"submitit refuses: {' '.join(str(error).split())}") from error
        return executor
