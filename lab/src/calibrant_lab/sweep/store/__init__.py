"""Stores of runs: crash-safe folders, leases, and an index for fast reading."""

from calibrant_lab.sweep.store.store import Store
from calibrant_lab.sweep.tasks.task import RunResult

__all__ = ["RunResult", "Store"]
