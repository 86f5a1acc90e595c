"""Where runs are kept: folders that lose nothing, leases, and an index for quick reading."""

from calibrant.experiments.result import RunResult
from calibrant.experiments.store.store import Store

__all__ = ["RunResult", "Store"]
