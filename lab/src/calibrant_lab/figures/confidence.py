"""Where the focal calibration map raises the top probability and where it lowers it.

Each function draws into ``ax`` or a new figure and returns the axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from calibrant import theory
from calibrant.reports.figures.drawing import BLUE, DASHED, GREY, VERMILLION, finish, new_axes


def confidence_regions(
    *,
    gamma: float = 1.0,
    num_classes: Sequence[int] = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 20, 30, 50, 100, 300, 1000),
    ax: Axes | None = None,
) -> Axes:
    """Top probabilities that the focal map always raises, never raises, or may do either with.

    The exponent is above 0; numbers of classes run across on a logarithmic scale.

    Example:
        >>> confidence_regions(num_classes=(3, 4, 10)).get_ylabel()
        'top probability'
    """
    ax = new_axes(ax, width=4.6, height=3.4)
    regions = [theory.confidence_region(gamma, count) for count in num_classes]
    threshold = theory.confidence_threshold(gamma)
    least = [1 / count for count in num_classes]
    lowered = [region.lowered_below for region in regions]
    raised = [min(region.raised_above, region.lowered_below) for region in regions]
    ax.fill_between(num_classes, lowered, 1, color=BLUE, alpha=0.25, linewidth=0, label="raised")
    label = "raised or lowered"
    ax.fill_between(num_classes, raised, lowered, color=GREY, alpha=0.35, linewidth=0, label=label)
    ax.fill_between(num_classes, least, raised, color=VERMILLION, alpha=0.35, linewidth=0, label="lowered")
    ax.axhline(threshold.above, color=BLUE, linewidth=1, linestyle=DASHED, label="g = 1")
    ax.axhline(threshold.below, color=VERMILLION, linewidth=1, linestyle=DASHED, label="g largest")
    ax.plot(num_classes, least, color=ax.xaxis.label.get_color(), linewidth=1, label="1 / number of classes")
    ax.set(xscale="log", xlim=(num_classes[0], num_classes[-1]), ylim=(0, 0.85))
    ax.set(xlabel="number of classes", ylabel="top probability")
    ax.set_title(f"γ = {gamma:g}", fontsize="medium")
    return finish(ax, legend="upper right", columns=2)
