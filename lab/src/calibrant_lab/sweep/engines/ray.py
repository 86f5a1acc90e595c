"""Runs as plain tasks of Ray, on this machine or on a cluster."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import Any, ClassVar

from calibrant._math.errors import InputError
from calibrant._math.ray_cluster import check_address, connect
from calibrant._math.worker_processes import available_cores, pinned_threads
from calibrant_lab.sweep.engines.engine import Ends, Engine, Function, Order, Work

_WINDOW = 500
"""Runs that Ray is told of at once where ``jobs`` does not say: enough for it to add machines."""
_GRACE = 30.0
"""Seconds that runs have to save what they are at."""
_OBJECTS = 128 * 2**20
"""Bytes of a local Ray's object store; results go to the store of runs instead."""


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

    def __init__(
        self, *, jobs: int | None = None, address: str = "", gpus: float = 1.0, memory: float = 0.0
    ) -> None:
        super().__init__(jobs=jobs)
        if not 0 <= gpus <= 1:
            raise InputError(f"`gpus` must be from 0 to 1; got {gpus}.")
        if memory < 0:
            raise InputError(f"`memory` must be at least 0; got {memory}.")
        check_address(address)
        self._address = address or os.environ.get("RAY_ADDRESS", "")
        self._gpus, self._memory = gpus, memory
        self._ray: Any = None
        self._is_ours = False
        self._futures: set[Any] = set()

    @property
    def window(self) -> int:
        """Some ahead of what it can do at once."""
        return self._wanted or _WINDOW

    def _fitting(self, orders: Sequence[Order]) -> int:
        """By the cluster, which is joined to see that; a Ray of this machine is started by the first run."""
        _ = orders
        cores = self._connected().cluster_resources().get("CPU", 1.0) if self._address else available_cores()
        return int(cores // self.threads)

    def submit(self, function: Function, /, *orders: Order) -> Future[Ends]:
        """As a task, which Ray does not repeat by itself: whether it is to be done again is in the store."""
        ray = self._connected()
        needs = [(order.item.task, order.item.settings) for order in orders]
        threads = max(task.threads(settings) for task, settings in needs)
        has_gpus = ray.cluster_resources().get("GPU", 0) > 0
        gpus = self._gpus * max(task.gpus(settings) for task, settings in needs) if has_gpus else 0
        task = ray.remote(Work.__call__).options(
            num_cpus=threads,
            num_gpus=gpus if gpus < 1 else math.ceil(gpus),
            memory=int(self._memory * 1e9) or None,
            max_retries=0,
            name=orders[0].item.label[:80],
            runtime_env={"env_vars": pinned_threads(threads)},
        )
        future: Any = task.remote(Work(function, str(Path.cwd()), threads), *orders).future()
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
            cores = max(available_cores(), self.threads * (self._wanted or 1))
            self._ray, self._is_ours = connect(self._address, cores=cores, store_bytes=_OBJECTS)
        return self._ray
