"""Result of a monitor, as frozen data with a JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from calibrant.evaluation.result import AsJson, Estimate, adapter_of
from calibrant.predictions import Kind, Source

MONITOR_SCHEMA_VERSION = 1
Against: TypeAlias = Literal["stated", "baseline", "drift"]
TestKey: TypeAlias = Literal["calibration", "change", "confidence", "stated-classes", "true-classes"]


@dataclass(frozen=True, kw_only=True)
class Window:
    """The samples of a span of time."""

    start: str
    end: str  # not included
    num_samples: int
    num_labelled: int
    end_seconds: float | None  # end of a window of dates, in seconds since 1970, UTC
    metrics: Mapping[str, Estimate]  # of the labelled samples; the level holds in this window alone


@dataclass(frozen=True, kw_only=True)
class SequentialTest:
    """Evidence against a hypothesis, which may be looked at after every window."""

    key: TestKey
    title: str
    decides: bool  # whether its alarm is the monitor's
    log10_evidence: tuple[float, ...]  # at the end of each window
    log10_threshold: float
    alarm: int | None  # the first window at whose end the threshold was reached
    since: int | None  # then: the window from which on the samples speak loudest
    about: str | None  # then: the class, label or bin that speaks loudest, if there are several
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Monitoring(AsJson):
    """Result of :func:`~calibrant.evaluation.monitor`, with a JSON form."""

    schema_version: int
    passed: bool
    against: Against
    false_alarms: float
    kind: Kind
    num_samples: int
    num_labelled: int
    windows: tuple[Window, ...]
    tests: tuple[SequentialTest, ...]
    source: Source | None
    baseline: Source | None
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    command: str | None

    def __repr__(self) -> str:
        counts = f"{self.kind}, {len(self.windows):,} windows, {self.num_samples:,} samples"
        deciding = " ".join(test.sentence for test in self.tests if test.decides)
        return f"Monitoring({counts}, {self.num_labelled:,} with labels)\n  {deciding}"

    @classmethod
    def from_json(cls, text: str) -> Monitoring:
        """Read the output of :meth:`to_json`."""
        return adapter_of(Monitoring).validate_json(text)
