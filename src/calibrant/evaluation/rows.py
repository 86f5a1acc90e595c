"""An evaluation as rows of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any


def rows_of(arms: Iterable[Any]) -> list[dict[str, Any]]:
    """One flat dictionary per arm and metric; arms as in ``Evaluation.arms``, which lies above."""
    rows: list[dict[str, Any]] = []
    for arm in arms:
        for metric, estimate in arm.metrics.items():
            change = arm.change.get(metric)
            rows.append(
                {
                    "arm": arm.name,
                    "metric": metric,
                    **dataclasses.asdict(estimate),
                    "change": None if change is None else change.value,
                    "change_low": None if change is None else change.low,
                    "change_high": None if change is None else change.high,
                }
            )
    return rows
