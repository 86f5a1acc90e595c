"""Where runs are kept: folders that lose nothing, leases, and an index for quick reading."""

from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.store.store import Store

__all__ = ["RunResult", "Store"]
