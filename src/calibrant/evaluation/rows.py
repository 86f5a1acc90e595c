"""Evaluations and comparisons as rows of a table, and as data frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from calibrant._math.frames import Library, frame_of


class AsRows:
    """Results with metrics by part, which convert to a table."""

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary per part (arm or model) and metric, ready for a data frame or a CSV file."""
        raise NotImplementedError

    def to_frame(self, *, library: Library | None = None) -> Any:
        """:meth:`rows` as a data frame of pandas or, where that alone is installed or asked for, polars.

        Raises:
            InputError: If ``library`` is another.
            ImportError: If it is not installed.
        """
        rows = self.rows()
        return frame_of({key: [row[key] for row in rows] for key in rows[0]}, library)


def rows_of(parts: Iterable[Any], *, part: str = "arm", change: str = "change") -> list[dict[str, Any]]:
    """One flat dictionary per part and metric.

    Args:
        parts: As in ``Evaluation.arms`` or ``Comparison.models``, which lie above.
        part: What a part is called.
        change: The name of its paired change; it is also the attribute that holds them.
    """
    rows: list[dict[str, Any]] = []
    for each in parts:
        changes = getattr(each, change)
        for metric, estimate in each.metrics.items():
            found = changes.get(metric)
            rows.append(
                {
                    part: each.name,
                    "metric": metric,
                    **dataclasses.asdict(estimate),
                    change: None if found is None else found.value,
                    f"{change}_low": None if found is None else found.low,
                    f"{change}_high": None if found is None else found.high,
                }
            )
    return rows
