"""Runs as plain tasks of Ray, on this machine or on a cluster."""

from __future__ import annotations

import atexit
import math
import os
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.ray_cluster import check_address, connect
from calibrant._math.worker_processes import available_cores, pinned_threads
from calibrant_lab.sweep.engines.engine import Ended, Engine, Event, Order
from calibrant_lab.sweep.engines.perform import absolute
from calibrant_lab.sweep.engines.ray_worker import News, work

_WINDOW = 500
"""Runs that Ray is told of at once where ``jobs`` does not say: enough for it to add machines."""
_GRACE = 30.0
"""Seconds that runs have to save what they are at."""
_LOOK_EVERY = 0.3  # seconds
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

    def __init__(
        self, *, jobs: int | None = None, address: str = "", gpus: float = 1.0, memory: float = 0.0
    ) -> None:
        if jobs is not None and jobs < 1:
            raise InputError(f"`jobs` must be at least 1; got {jobs}.")
        if not 0 <= gpus <= 1:
            raise InputError(f"`gpus` must be from 0 to 1; got {gpus}.")
        if memory < 0:
            raise InputError(f"`memory` must be at least 0; got {memory}.")
        check_address(address)
        self._wanted, self._address = jobs, address or os.environ.get("RAY_ADDRESS", "")
        self._gpus, self._memory = gpus, memory
        self.jobs = jobs or 1
        self._ray: Any = None
        self._ours = False
        self._news: Any = None
        self._running: dict[Any, Order] = {}

    def prepare(self, orders: Sequence[Order]) -> None:
        """Join the cluster, if there is one, to see how much it holds."""
        threads = max((order.item.task.threads(order.item.settings) for order in orders), default=1)
        cores = float(available_cores())
        if self._address:
            self._connect(threads)
            cores = self._ray.cluster_resources().get("CPU", 1.0)
        self.jobs = self._wanted or max(1, min(int(cores // threads), len(orders)))

    def run(self, orders: Sequence[Order]) -> Generator[Event]:
        """Hand Ray the runs, some ahead of what it can do at once."""
        if not orders:
            return
        self._connect(max(order.item.task.threads(order.item.settings) for order in orders))
        self._listen()
        waiting = deque(orders)
        try:
            while waiting or self._running:
                while waiting and len(self._running) < (self._wanted or _WINDOW):
                    order = waiting.popleft()
                    self._running[self._submitted(order)] = order
                ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_LOOK_EVERY)
                yield from self._told()
                for each in ready:
                    yield self._ended(each, self._running.pop(each))
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """End what still runs, and leave the cluster."""
        if self._ray is None:
            return
        self._stop()
        if self._ours:
            self._ray.shutdown()
        self._ray = self._news = None

    def _connect(self, threads: int) -> None:
        if self._ray is None:
            cores = max(available_cores(), threads * (self._wanted or 1))
            self._ray, self._ours = connect(self._address, cores=cores, store_bytes=_OBJECTS)
            if self._ours:
                atexit.register(self.close)

    def _listen(self) -> None:
        """An actor near by to which runs say how far they are."""
        if self._news is not None:
            return
        ray = self._ray
        here = ray.get_runtime_context().get_node_id()
        near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=True)
        actor = ray.remote(News).options(num_cpus=0, max_restarts=-1, scheduling_strategy=near)
        self._news = actor.remote()

    def _submitted(self, order: Order) -> Any:
        """The task, which Ray does not repeat by itself: whether it is to be done again is in the store."""
        settings = order.item.settings
        threads = order.item.task.threads(settings)
        has_gpus = self._ray.cluster_resources().get("GPU", 0) > 0
        gpus = self._gpus * order.item.task.gpus(settings) if has_gpus else 0
        task = self._ray.remote(work).options(
            num_cpus=threads,
            num_gpus=gpus if gpus < 1 else math.ceil(gpus),
            memory=int(self._memory * 1e9) or None,
            max_retries=0,
            name=order.item.label[:80],
            runtime_env={"env_vars": pinned_threads(threads)},
        )
        return task.remote(absolute(order), self._news, threads, str(Path.cwd()))

    def _told(self) -> list[Event]:
        """How far runs are; nothing where that cannot be known in time."""
        with suppress(self._ray.exceptions.RayError):
            news: list[Event] = self._ray.get(self._news.taken.remote(), timeout=5)
            return news
        return []

    def _ended(self, task: Any, order: Order) -> Ended:
        try:
            ended: Ended = self._ray.get(task)
        except self._ray.exceptions.TaskCancelledError:
            return Ended(run=order.item.run, state="stopped")
        except self._ray.exceptions.WorkerCrashedError:
            return Ended(run=order.item.run, state="died", reason="its process, or the node it was on, died.")
        except self._ray.exceptions.RayError as error:
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            return Ended(run=order.item.run, state="died", reason=f"{said.rstrip('.')}.")
        return ended

    def _stop(self) -> None:
        """Tell all to save and end, and wait for them; then end those that did not."""
        running, self._running = list(self._running), {}
        if not running:
            return
        for task in running:
            self._ray.cancel(task)
        until = time.monotonic() + _GRACE
        try:
            while running and time.monotonic() < until:
                _, running = self._ray.wait(running, num_returns=len(running), timeout=1)
        finally:
            for task in running:
                self._ray.cancel(task, force=True)
