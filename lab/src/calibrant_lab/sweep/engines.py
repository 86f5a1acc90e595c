"""Engines pass runs to workers, like executors of :mod:`concurrent.futures`; the store tracks results."""

from __future__ import annotations

import math
import multiprocessing as mp
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

from calibrant._math import machine as workers
from calibrant._math.errors import InputError
from calibrant._math.machine import check_address, connect
from calibrant._math.text_form import build_from
from calibrant_lab.sweep.tasks.task import Item

_GRACE = 30.0  # seconds that workers have to save what they are doing before they are ended
_OBJECTS = 128 * 2**20  # bytes of a local Ray's object store; results go to the store of runs instead
_TIMEOUTS = 1000  # how often Slurm queues a run that outlasts its job


@dataclass(frozen=True, kw_only=True)
class Ended:
    """End of a run for a worker: the kind, the result's status if any, and the reason of a failure."""

    run: str
    state: Literal["done", "held", "stopped", "died"]
    """``done``: its result is in the store, whatever its status. ``held``: another sweep has it. ``stopped``:
    the worker had to stop, and what it did is saved. ``died``: it broke down; the run may be tried again."""
    status: str | None = None
    reason: str | None = None
    seconds: float = 0.0  # time of the whole run, earlier sessions included
    shown: str = ""  # the numbers that are shown on the way, such as `accuracy 0.931  ECE 0.021`
    ends_all: bool = False  # whether the worker died of what would end any other: a full disk


Ends: TypeAlias = list[Ended]
Function: TypeAlias = Callable[..., Ends]  # a worker calls it with the address of a store and runs


@dataclass(kw_only=True, eq=False)
class Engine(ABC):
    """An executor of runs; on exit or shutdown, its workers save their work and end.

    Its fields are the settings of the command line, and what :meth:`prepare` finds.

    Args:
        jobs: How many submissions at once; by default as many as fit.
    """

    is_here: ClassVar[bool] = True  # true if runs are certainly done on this machine
    ahead: ClassVar[int] = 1  # the least number of submissions where `jobs` is not given
    runs: int = field(default=1, init=False)  # number of runs per submission, done one after the other
    jobs: int | None = None
    at_once: int = field(default=1, init=False)
    window: int = field(default=1, init=False)  # number of submissions that fit
    threads: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        for name in ("jobs", "runs", "minutes"):
            value = getattr(self, name, None)
            if value is not None and value < 1:
                raise InputError(f"`{name}` must be at least 1; got {value}.")

    def prepare(self, items: Sequence[Item]) -> None:
        """Set threads and parallel runs for all runs, before the first; refuse what is impossible."""
        for item in items:
            if self.is_here and (lacking := item.task.lacking(item.settings)):
                raise InputError(lacking)
        self.threads = max((item.task.threads(item.settings) for item in items), default=1)
        fitting = self._fitting(items)
        self.at_once = self.jobs or max(1, min(fitting, -(-len(items) // self.runs)))
        self.window = self.jobs or max(self.at_once, self.ahead)

    @abstractmethod
    def _fitting(self, items: Sequence[Item]) -> int:
        """Return the number of submissions that fit."""

    @abstractmethod
    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]: ...

    def submit_all(self, function: Function, store: str, chunks: Sequence[list[Item]]) -> list[Future[Ends]]:
        return [self.submit(function, store, *items) for items in chunks]

    def wait(self, futures: Collection[Future[Ends]], seconds: float) -> Collection[Future[Ends]]:
        """Return finished futures, as soon as there is one, or after the given seconds."""
        return wait(futures, seconds, FIRST_COMPLETED).done

    def reason(self, future: Future[Ends], error: Exception) -> str:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        return f"{said.rstrip('.')}."

    def shutdown(self) -> None:  # noqa: B027 (an engine may have no workers)
        """Have all workers save, wait for them, and end them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


@dataclass(kw_only=True, eq=False)
class Serial(Engine):
    """Runs in this process, one after the other, for any ``jobs``; without progress."""

    def __post_init__(self) -> None:
        self.jobs = 1

    def _fitting(self, items: Sequence[Item]) -> int:
        return len(items[:1])

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        future: Future[Ends] = Future()
        future.set_result(ends := function(store, *items))
        if ends[-1].state == "stopped":  # Ctrl-C
            raise KeyboardInterrupt(ends[-1].reason or "")
        return future


# ---------------------------------------------------------------- processes of this machine


@dataclass(kw_only=True, eq=False)
class Pool(Engine):
    """Local processes that serve many runs; a dead one is replaced.

    By default ``jobs`` is as many as there are cores for the threads of each run, or GPUs if runs use them.
    """

    _gpus: int = field(default=0, init=False)
    _seats: list[_Seat] = field(default_factory=list["_Seat"], init=False)

    def _fitting(self, items: Sequence[Item]) -> int:
        on_gpu = any(item.task.needs_gpu(item.settings) for item in items)
        self._gpus = workers.available_gpus() if on_gpu else 0
        return self._gpus or workers.available_cores() // self.threads

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        seat = next((each for each in self._seats if each.future.done()), None)
        if seat is None:
            environment = workers.pinned_threads(self.threads)
            if self._gpus > 1:
                environment["CUDA_VISIBLE_DEVICES"] = _gpu_of(len(self._seats), self._gpus)
            seat = _Seat(environment, self.threads)
            self._seats.append(seat)
        return seat.submit(function, store, *items)

    def reason(self, future: Future[Ends], error: Exception) -> str:
        (process,) = [each.process for each in self._seats if each.future is future]
        if process is None or not isinstance(error, BrokenProcessPool):
            return super().reason(future, error)
        process.join()
        code = process.exitcode or 0
        if code >= 0:
            return f"its process ended with exit code {code}."
        name = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
        out_of_memory = "; the system may have run out of memory" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{out_of_memory}."

    def shutdown(self) -> None:
        """Have all save and end, and wait for them, unless Ctrl-C comes again."""
        seats, self._seats = self._seats, []
        until = time.monotonic() + _GRACE
        for each in seats:
            if each.process is not None and not each.future.done():
                each.process.terminate()
            each.executor.shutdown(wait=False, cancel_futures=True)
        processes = [each.process for each in seats if each.process is not None]
        try:
            for process in processes:
                process.join(max(0.0, until - time.monotonic()))
        finally:
            for process in processes:
                process.kill()


class _Seat:
    """Slot for one process, with its own executor, so that its death ends no other run."""

    process: BaseProcess | None = None
    future: Future[Ends]

    def __init__(self, environment: dict[str, str], threads: int) -> None:
        self._environment = environment
        self._new = partial(ProcessPoolExecutor, 1, mp.get_context("spawn"), _begin, (threads,))
        self.executor = self._new()

    def submit(self, *call: Any) -> Future[Ends]:
        others = mp.active_children()
        with workers.changed_environment(self._environment):
            try:
                self.future = self.executor.submit(_call, *call)
            except BrokenProcessPool:
                self.executor = self._new()
                self.future = self.executor.submit(_call, *call)
        self.process = next((each for each in mp.active_children() if each not in others), self.process)
        return self.future


def _begin(threads: int) -> None:
    """Make the process end on request, and with the driver; a training saves first."""
    if hasattr(os, "setsid"):
        with suppress(OSError):
            os.setsid()  # Ctrl-C in the terminal is for the driver, which tells the workers itself
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    workers.pin_threads(threads)
    threading.Thread(target=_follow_driver, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())


def _follow_driver() -> None:
    driver = mp.parent_process()
    if driver is not None:
        driver.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        os._exit(1)


def _call(function: Function, store: str, *items: Item) -> Ends:
    """Call a function; nobody waits for the result if the driver has gone."""
    ends = function(store, *items)
    driver = mp.parent_process()
    if driver is not None and not driver.is_alive():
        os._exit(1)
    return ends


def _gpu_of(place: int, count: int) -> str:
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return (seen if len(seen) == count else [*map(str, range(count))])[place % count]


# ---------------------------------------------------------------- other machines, and this one


@dataclass(frozen=True)
class Work:
    """A function for another machine, called in the sweep's folder if that exists."""

    function: Function
    folder: str
    threads: int

    def __call__(self, store: str, *items: Item) -> Ends:
        with suppress(OSError):
            os.chdir(self.folder)
        workers.pin_threads(self.threads)
        return self.function(store, *items)

    def checkpoint(self, store: str, *items: Item) -> Any:
        """Queue the job again to resume; submitit calls this shortly before the time limit."""
        return import_module("submitit").helpers.DelayedSubmission(self, store, *items)


@dataclass(kw_only=True, eq=False)
class Ray(Engine):
    """Ray tasks with the cores of their recipes; those of a dead machine move elsewhere.

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
        """Return the cluster's capacity; the first run starts a local Ray."""
        cores = workers.available_cores()
        if self.address:
            cores = self._connected().cluster_resources().get("CPU", 1.0)
        return int(cores // self.threads)

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        """Submit a task without Ray's retries; the store decides about repeats."""
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
            runtime_env={"env_vars": workers.pinned_threads(threads)},
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
        """Have all save and end, wait, kill the rest, and leave the cluster."""
        if self._ray is None:
            return
        running = list(self._futures)
        for future in running:
            self._ray.cancel(future.object_ref)
        try:
            wait(running, _GRACE)
        finally:
            for future in self._futures.intersection(running):
                self._ray.cancel(future.object_ref, force=True)
            if self._is_ours:
                self._ray.shutdown()
            self._ray = None

    def _connected(self) -> Any:
        if self._ray is None:
            cores = max(workers.available_cores(), self.threads * (self.jobs or 1))
            self._ray, self._is_ours = connect(self.address, cores=cores, store_bytes=_OBJECTS)
        return self._ray


@dataclass(kw_only=True, eq=False)
class Submitit(Engine):
    """Slurm jobs; one at its time limit is queued again, and resumes after its last epoch.

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
        super().__post_init__()
        if self.cluster not in {"", "slurm", "local"}:
            raise InputError(f"`cluster` must be slurm or local; got {self.cluster!r}.")

    def _fitting(self, items: Sequence[Item]) -> int:
        is_local = self.cluster == "local"
        used = [item for item in items if not is_local or item.task.needs_gpu(item.settings)]
        self._gpus = max((item.task.gpus(item.settings) for item in used), default=0)
        return workers.available_cores() // self.threads if is_local else 100

    def submit(self, function: Function, store: str, /, *items: Item) -> Future[Ends]:
        return self.submit_all(function, store, [[*items]])[0]

    def submit_all(self, function: Function, store: str, chunks: Sequence[list[Item]]) -> list[Future[Ends]]:
        self._executor = self._executor or self._made()
        work = Work(function, str(Path.cwd()), self.threads)
        with workers.changed_environment(workers.pinned_threads(self.threads)), self._executor.batch():
            jobs = [self._executor.submit(work, store, *items) for items in chunks]
        self._submitted += jobs
        return jobs

    def wait(self, futures: Collection[Future[Ends]], seconds: float) -> Collection[Future[Ends]]:
        """Poll for finished futures, less often with Slurm."""
        done = [each for each in futures if each.done()]
        if not done:
            time.sleep(0.2 if self._executor.cluster == "local" else 5.0)
        return done

    def reason(self, future: Future[Ends], error: Exception) -> str:
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


ENGINES: Mapping[str, type[Engine]] = {"pool": Pool, "ray": Ray, "serial": Serial, "submitit": Submitit}


def build_engine(text: str, *, jobs: int | None = None) -> Engine:
    """Build the engine for a text such as ``pool``.

    Example:
        >>> type(build_engine("serial")).__name__
        'Serial'
        >>> build_engine("pol")
        Traceback (most recent call last):
        calibrant._math.errors.InputError: there is no engine 'pol'; did you mean 'pool'?
    """
    makers = {name: partial(kind, jobs=jobs) for name, kind in ENGINES.items()}
    return build_from(text, makers, what="engine")
