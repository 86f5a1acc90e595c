"""Where runs can be sent: experiment trackers, each by its own library."""

from calibrant_lab.sweep.sinks.roster import SINKS, export

__all__ = ["SINKS", "export"]
