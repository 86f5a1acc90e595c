"""Diagrams of a stream: evidence, and a number of each window with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from calibrant.evaluation.monitoring.result import Monitoring
from calibrant.evaluation.result import Estimate
from calibrant.reports.figures import drawing

MOST_MARKED = 6  # windows named below the axis


def evidence_diagram(found: Monitoring, *, ax: Axes) -> Axes:
    """Evidence of the test that decides at the end of each window, and from where on it is an alarm."""
    test = next(each for each in found.tests if each.decides)
    ax.plot(np.arange(len(test.log10_evidence)), test.log10_evidence, color=drawing.BLUE, marker=".", lw=1)
    ax.axhline(test.log10_threshold, color=drawing.GREY, linestyle=drawing.DASHED, lw=0.8)
    if test.alarm is not None:
        ax.plot([test.alarm], [test.log10_evidence[test.alarm]], "D", color=drawing.VERMILLION)
    ax.set_ylabel("evidence, power of ten")
    return _named(found, ax)


def window_diagram(found: Monitoring, keys: Sequence[tuple[str, str]], *, ax: Axes) -> Axes:
    """Numbers of each window, with intervals of the window alone.

    Args:
        found: The stream.
        keys: Keys of metrics, and what they are called.
        ax: Where to draw.
    """
    for position, (key, name) in enumerate(keys):
        color, shape, dashes = drawing.series(position)
        rows = [
            (place, estimate)
            for place, window in enumerate(found.windows)
            if (estimate := window.metrics.get(key)) is not None and estimate.value is not None
        ]
        places = np.array([place for place, _ in rows])
        values = np.array([estimate.value for _, estimate in rows], dtype=np.float64)
        ax.plot(places, values, color=color, marker=shape, ms=3, linestyle=dashes, lw=1, label=name)
        ends = np.array([_ends(estimate) for _, estimate in rows]).reshape(-1, 2)
        ax.vlines(places, ends[:, 0], ends[:, 1], color=color, lw=0.8, alpha=0.7)
    if len(keys) > 1:
        ax.legend(frameon=False)
    return _named(found, ax)


def _ends(estimate: Estimate) -> tuple[float, float]:
    value = estimate.value or 0.0
    return (
        value if estimate.low is None else estimate.low,
        value if estimate.high is None else estimate.high,
    )


def _named(found: Monitoring, ax: Axes) -> Axes:
    """Some windows below the axis, by their beginning."""
    step = -(-len(found.windows) // MOST_MARKED)
    ax.set_xticks(
        np.arange(0, len(found.windows), step),
        [window.start for window in found.windows[::step]],
        rotation=30,
        ha="right",
    )
    ax.set_xlabel("window")
    return ax
