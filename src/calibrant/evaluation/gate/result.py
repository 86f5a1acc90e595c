"""Result of a gate, as frozen data with a JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from calibrant.evaluation.result import AsJson, adapter_of
from calibrant.predictions import Kind, Source

CHECK_SCHEMA_VERSION = 2
Outcome: TypeAlias = Literal["pass", "within noise", "fail"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check; ``against`` is the limit, or the baseline's value."""

    metric: str  # as it was asked for
    key: str  # of the same quantity in the JSON of an evaluation
    about: str  # "top label", "positive class", "labels" or "decisions"
    kind: Literal["limit", "baseline"]
    value: float | None  # None: infinite
    against: float | None
    threshold: float | None  # a limit: of the value; a baseline: of the difference; beyond it is no noise
    p_value: float | None  # None without draws
    outcome: Outcome
    conclusive: bool  # False: so few samples pass much worse models too
    would_pass: float | None  # then: a true value beyond the limit that passes most of the time
    passed: bool
    sentence: str
    group: str | None = None  # that the check is about; None: all samples


@dataclass(frozen=True, kw_only=True)
class GateResult(AsJson):
    """Result of :func:`check`, with a JSON form."""

    schema_version: int
    passed: bool
    strict: bool
    confidence: float
    checks: tuple[Check, ...]
    kind: Kind
    num_samples: int
    paired: bool | None  # with a baseline: whether both have the same samples
    num_bins: int
    bootstrap: int
    seed: int
    source: Source | None
    baseline: Source | None
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    command: str | None
    warnings: tuple[str, ...] = ()  # likely mistakes in the data, to be read first

    def __repr__(self) -> str:
        passed = "passed" if self.passed else "failed"
        sentences = "".join(f"\n  {check.sentence}" for check in self.checks)
        return f"GateResult({passed}, {self.kind}, {self.num_samples:,} samples){sentences}"

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """JSON Schema of the output of ``calibrant check --json``: a result or an error."""
        return adapter_of(GateResult | GateError).json_schema(mode="serialization")


@dataclass(frozen=True, kw_only=True)
class GateError(AsJson):
    """Reason why nothing was checked, in the JSON of ``calibrant check``."""

    schema_version: int
    passed: Literal[False] = False
    error: str
    versions: Mapping[str, str]
    command: str | None
