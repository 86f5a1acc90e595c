"""Where runs can be sent: experiment trackers, each by its own library."""

from calibrant.experiments.sinks.roster import SINKS, export

__all__ = ["SINKS", "export"]
