"""Counts of what was answered, for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

_KNOWN = frozenset(
    {"/", "/evaluate", "/compare", "/apply", "/predict", "/about", "/health", "/metrics", "/openapi.json"}
)


class Counts:
    """Answers by path and status, and the seconds that they took."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count one answer; paths that nobody serves count as one."""
        known = path if path in _KNOWN else "other"
        self._answers[known, status] += 1
        self._seconds[known] += seconds  # pyright: ignore[reportArgumentType]

    def text(self, gauges: Mapping[str, float]) -> str:
        """All counts in Prometheus's text format, and what else is to be known now.

        Example:
            >>> counts = Counts()
            >>> counts.add("/health", 200, 0.25)
            >>> print(counts.text({"held_bytes": 0}))
            # TYPE calibrant_answers_total counter
            calibrant_answers_total{path="/health",status="200"} 1
            # TYPE calibrant_answer_seconds_total counter
            calibrant_answer_seconds_total{path="/health"} 0.25
            # TYPE calibrant_held_bytes gauge
            calibrant_held_bytes 0
            <BLANKLINE>
        """
        lines = ["# TYPE calibrant_answers_total counter"]
        lines += [
            f'calibrant_answers_total{{path="{path}",status="{status}"}} {count}'
            for (path, status), count in sorted(self._answers.items())
        ]
        lines += ["# TYPE calibrant_answer_seconds_total counter"]
        lines += [
            f'calibrant_answer_seconds_total{{path="{path}"}} {seconds:.6g}'
            for path, seconds in sorted(self._seconds.items())
        ]
        for name, value in gauges.items():
            lines += [f"# TYPE calibrant_{name} gauge", f"calibrant_{name} {value:g}"]
        return "\n".join(lines) + "\n"
