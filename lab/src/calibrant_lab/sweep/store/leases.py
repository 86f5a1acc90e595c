"""One run, one worker: leases that end with the process that holds them, or when it falls silent."""

from __future__ import annotations

import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Self

from calibrant_lab.sweep.store.places import LEASES, Place

EXPIRY = 120.0
"""Seconds of silence after which a lease of another machine has ended; clocks must agree better than that."""
_BEATS = 6
"""How often a lease is renewed in that time."""
_NOTE_EVERY = 2.0
"""Seconds between notes in it of how far the run is, where each costs nothing: in a folder."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lease."""

    host: str
    machine: str
    """Host, boot and process namespace: where it is the same, process numbers mean the same."""
    pid: int
    started: str
    """When the process was started, as the system counts; empty where it does not say."""
    token: str
    time: float
    """When it was renewed."""
    share: float = 0.0
    """How far the run was then."""
    words: str = ""
    """How far the run was then, in words."""

    @property
    def lapsed(self) -> bool:
        silent = time.time() - self.time > EXPIRY
        if self.machine != _machine() or os.name != "posix":
            return silent
        if not _is_alive(self.pid):
            return True
        return self.started != _start_of(self.pid) if self.started else silent


class Leases:
    """The leases of a store.

    A lease is a file that only one can create, with a number. Where the holder of the highest number is gone,
    the next is whoever creates the file with the number after it, so two can never hold a run at once.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self.note_every = EXPIRY / _BEATS if "://" in place.address else _NOTE_EVERY
        """Seconds between notes of how far a run is."""

    def claim(self, run: str, *, lost: Callable[[], None] = lambda: None) -> Lease | None:
        """The lease of a run, or None if another holds it; ``lost`` is called if it is lost later."""
        last = self.newest(run)
        if last:
            holder = self._holder(run, last)
            if holder is None or not holder.lapsed:
                return None
        lease = Lease(self._place, run, last + 1, self, lost)
        if not self._place.create(lease.name, lease.content()):
            return None
        if last and self._place.read(_name(run, last)) is None:
            # Another took it over and gave it back meanwhile; whoever came after that does not know of this.
            self._place.delete(lease.name)
            return None
        return lease

    def holder(self, run: str) -> Holder | None:
        numbers = self._numbers(run)
        holder = self._holder(run, max(numbers)) if numbers else None
        return None if holder is None or holder.lapsed else holder

    def held(self, runs: Collection[str] | None = None) -> dict[str, Holder]:
        """All runs that are held, or those of some."""
        newest: dict[str, int] = {}
        for run, number in self._all():
            newest[run] = max(number, newest.get(run, 0))
        chosen = sorted(newest if runs is None else newest.keys() & runs)
        found = {run: self._holder(run, newest[run]) for run in chosen}
        return {run: each for run, each in found.items() if each is not None and not each.lapsed}

    def newest(self, run: str) -> int:
        """The number of the newest lease of a run; 0 if there is none."""
        return max(self._numbers(run), default=0)

    def clear(self, run: str, up_to: int) -> None:
        """Remove the leases of a run up to a number."""
        for number in self._numbers(run):
            if number <= up_to:
                with suppress(FileNotFoundError):
                    self._place.delete(_name(run, number))

    def _numbers(self, run: str) -> list[int]:
        return [number for each, number in self._all() if each == run]

    def _all(self) -> list[tuple[str, int]]:
        found = [name.split(".") for name in self._place.names(LEASES)]
        return [(parts[0], int(parts[1])) for parts in found if len(parts) == 3]

    def _holder(self, run: str, number: int) -> Holder | None:
        """Who holds it by its file; None if that is gone by now."""
        content = self._place.read(_name(run, number))
        if content is None:
            return None
        try:
            return Holder(**json.loads(content))
        except (ValueError, TypeError):  # being written at this moment, or cut off when a machine went down
            return _UNREADABLE.setdefault((self._place.address, run, number), _nobody())


_UNREADABLE: dict[tuple[str, str, int], Holder] = {}


def _nobody() -> Holder:
    """Stands for a file that cannot be read: from when it was first seen so, as for a silent machine."""
    return Holder(host="?", machine="?", pid=0, started="", token="", time=time.time())


class Lease:
    """A run that this process alone may do; entered, it is renewed in the background."""

    def __init__(self, place: Place, run: str, number: int, leases: Leases, lost: Callable[[], None]) -> None:
        self._place, self._run, self._number, self._leases, self._lost = place, run, number, leases, lost
        self._token = secrets.token_hex(8)
        self._guard, self._ended = threading.Lock(), threading.Event()
        self._share, self._words, self._written = 0.0, "", time.monotonic()
        self.name = _name(run, number)

    def content(self) -> bytes:
        pid = os.getpid()
        process = (platform.node(), _machine(), pid, _start_of(pid))
        holder = Holder(*process, self._token, time.time(), self._share, self._words)
        return json.dumps(asdict(holder)).encode()

    @property
    def is_ours(self) -> bool:
        """Whether nobody took it over."""
        return self._leases.newest(self._run) <= self._number

    def __enter__(self) -> Self:
        threading.Thread(target=self._stay_alive, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._ended.set()
        self._leases.clear(self._run, self._number)

    def note(self, share: float, words: str) -> None:
        """Have the file say how far the run is, the next time that it is written: soon, or when renewed."""
        self._share, self._words = share, words
        if time.monotonic() - self._written > self._leases.note_every:
            self.renew()

    def renew(self) -> None:
        """Say that the holder is alive; or, where another has taken over, tell it so."""
        with self._guard, suppress(OSError):  # the next time will do
            if self._ended.is_set():
                return
            self._written = time.monotonic()
            if self.is_ours:
                self._place.write(self.name, self.content())
            else:
                self._ended.set()
                self._lost()

    def _stay_alive(self) -> None:
        while not self._ended.wait(EXPIRY / _BEATS):
            self.renew()


def _name(run: str, number: int) -> str:
    return f"{LEASES}/{run}.{number}.json"


@cache
def _machine() -> str:
    """What must be the same for process numbers to mean the same."""
    boot, namespace = "", ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    return f"{platform.node()} {boot} {namespace}".strip()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def _start_of(pid: int) -> str:
    """When a process began, in the system's ticks; empty where the system does not say, or for a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
