"""Settings of the monitoring study."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Change:
    """From some look on, the true log-odds are ``slope`` times the stated ones, plus ``shift``."""

    slope: float = 1.0
    shift: float = 0.0

    @property
    def formula(self) -> str:
        """The true log-odds."""
        scaled = "z" if self.slope == 1 else f"{self.slope:g} z"
        return f"{scaled} + {self.shift:g}" if self.shift else scaled

    def __str__(self) -> str:
        return f"{self.slope:g} z {self.shift:+g}" if self.shift else f"{self.slope:g} z"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Streams of a model of one event whose log-odds z are normal."""

    spread: float = 2.0  # standard deviation of z
    batch: int = 20  # samples between two looks
    looks: int = 10_000
    looks_of_window: int = 100
    false_alarms: float = 0.05
    changes: tuple[Change, ...] = (Change(slope=0.8), Change(slope=0.5), Change(shift=0.3), Change(shift=1.0))
    change_at: tuple[int, ...] = (1000, 5000)  # looks
    quiet_streams: int = 400
    changed_streams: int = 40
    streams_of_record: int = 20


DEFAULT = Setting()
