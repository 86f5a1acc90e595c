"""Where runs are kept: folders that lose nothing, leases, and an index for quick reading."""

from calibrant_lab.sweep.store.store import Store
from calibrant_lab.sweep.tasks.task import RunResult

__all__ = ["RunResult", "Store"]
