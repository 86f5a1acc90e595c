"""How a quantity is shown where a layout does not say: title, unit, digits, and which end is better."""

from __future__ import annotations

from typing import Any

_PERCENT = {"scale": 100.0, "unit": "%", "digits": 2}
_PLAIN = {"scale": 1.0, "unit": "", "digits": 3}


def usual(source: str | None, name: str) -> dict[str, Any]:
    """Title, scale, unit, digits and the better end.

    Metrics that are fractions are shown in per cent; which they are, the roster of quantities says.

    Example:
        >>> usual("metric", "ece")
        {'title': 'ECE', 'better': 'lower', 'scale': 100.0, 'unit': '%', 'digits': 2}
        >>> usual("parameter", "temperature")["title"]
        'T'
    """
    if source == "metric":
        if name == "error":
            return {"title": "Error", "better": "lower", **_PERCENT}
        from calibrant.evaluation.quantities import QUANTITIES

        for each in QUANTITIES:
            if name in {each.key, each.event_key}:
                better = each.better if each.better in {"lower", "higher"} else None
                form = _PERCENT if each.bounds == (0.0, 1.0) else _PLAIN
                return {"title": each.title, "better": better, **form}
    if source == "parameter" and name == "temperature":
        return {"title": "T", "better": None, **_PLAIN, "digits": 2}
    if source == "spent":
        return {"title": name, "better": None, "scale": 1.0, "unit": "s", "digits": 1}
    return {"title": name.rpartition(".")[2].replace("_", " "), "better": None, **_PLAIN}
