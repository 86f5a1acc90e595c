"""The table of the page on prediction files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

TITLES = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "ece": "ECE",
    "adaptive_ece": "AdaECE",
    "classwise_ece": "classwise",
    "smce": "smCE",
    "slope": "slope",
}
COARSE = {"accuracy", "nll", "slope"}
WITH_INTERVAL = {"ece", "slope"}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Heads and cells of the table."""
    heads = ["file", "kind", "N", "C"]
    for name, title in TITLES.items():
        heads += [title, *{"ece": ["ECE by chance"], "smce": ["smECE"]}.get(name, [])]
    return {"heads": [*heads, "verdict"], "cells": [list(_cells(row)) for row in numbers["rows"]]}


def _cells(row: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"`{row['name']}`", row["kind"], f"{row['num_samples']:,}", str(row["num_classes"] or "–"))
    for name in TITLES:
        yield _cell(name, row["metrics"][name])
        if name == "ece":
            yield f"{row['null_mean']:.4f} ({row['null_upper']:.4f})"
        elif name == "smce":
            yield f"{row['smooth_ece']:.4f}"
    failing = ", ".join(row["failing"])
    yield row["direction"] + (f" ({failing})" if failing else "")


def _cell(name: str, estimate: Mapping[str, Any]) -> str:
    value, low, high = (estimate[end] for end in ("value", "low", "high"))
    digits = 3 if name in COARSE else 4
    if value is None:
        return "∞" if (estimate["reason"] or "").startswith("infinite") else "–"
    if name in WITH_INTERVAL and low is not None and high is not None:
        return f"{value:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"
    return f"{value:.{digits}f}"
