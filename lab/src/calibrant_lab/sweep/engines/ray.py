"""Runs as plain tasks of Ray, on this machine or on a cluster."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from calibrant._math.errors import InputError
from calibrant._math.ray_cluster import check_address, connect
from calibrant._math.worker_processes import available_cores, pinned_threads
from calibrant_lab.sweep.engines.engine import Ends, Engine, Function, Work
from calibrant_lab.sweep.item import Item

_WINDOW = 500
"""Runs that Ray is told of at once where ``jobs`` does not say: enough for it to add machines."""
_GRACE = 30.0
"""Seconds that runs have to save what they are at."""
_OBJECTS = 128 * 2**20
"""Bytes of a local Ray's object store; results go to the store of runs instead."""


@dataclass(kw_only=True, eq=False)
class Ray(Engine):
    """Tasks of Ray, each with the cores that its recipe asks for; what a dead machine had is done elsewhere.

    Args:
        jobs: How many at once; by default as many as the cluster holds.
        address: Address of a cluster, as ``"auto"`` on one of its machines; by default what ``RAY_ADDRESS``
            says, and where it says nothing a Ray of this machine alone, which is started and ended.
        gpus: Share of a GPU for each device of a run whose recipe may use one, in a cluster that has some.
        memory: Gigabytes to be set aside for each run; 0: none.
    """

    is_here: ClassVar[bool] = False

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
        """By the cluster, which is joined to see that; a Ray of this machine is started by the first run."""
        _ = items
        cores = self._connected().cluster_resources().get("CPU", 1.0) if self.address else available_cores()
        return int(cores // self.threads)

    @property
    def window(self) -> int:
        """Some ahead of what it can do at once."""
        return self.jobs or _WINDOW

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        """As a task, which Ray does not repeat by itself: whether it is to be done again is in the store."""
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
        """What Ray says, in fewer words where a worker died."""
        if isinstance(error, self._ray.exceptions.WorkerCrashedError):
            return "its process, or the node it was on, died."
        return super().reason(future, getattr(error, "cause", None) or error)

    def shutdown(self) -> None:
        """Tell all to save and end, wait for them, end those that did not, and leave the cluster."""
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
