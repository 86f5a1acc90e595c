"""A comparison in at most twelve words: what is better, and what worse."""

from __future__ import annotations

from collections.abc import Sequence


def comparison_in_short(
    names: Sequence[str], least_error: Sequence[int], most_accurate: Sequence[int]
) -> str:
    """Who leads in calibration error and in accuracy.

    Args:
        names: The models.
        least_error: The places of the model with the lowest error, and of those that noise could explain.
        most_accurate: The same of the accuracy.

    Example:
        >>> comparison_in_short(["a", "b"], [1], [0])
        'b has the lower calibration error, a the higher accuracy.'
        >>> comparison_in_short(["a", "b", "c"], [2], [0, 1])
        'Lowest calibration error: c; highest accuracy: a (+1 tied).'
    """
    if len(names) > 2:
        error, accuracy = _leader(names, least_error), _leader(names, most_accurate)
        return f"Lowest calibration error: {error}; highest accuracy: {accuracy}."
    error, accuracy = (names[each[0]] if len(each) == 1 else None for each in (least_error, most_accurate))
    if error is None and accuracy is None:
        return "Tied within noise in calibration error and in accuracy."
    if accuracy is None:
        return f"{error} has the lower calibration error; accuracy is tied."
    if error is None:
        return f"{accuracy} has the higher accuracy; calibration error is tied."
    if error == accuracy:
        return f"{error} has the lower calibration error and the higher accuracy."
    return f"{error} has the lower calibration error, {accuracy} the higher accuracy."


def _leader(names: Sequence[str], places: Sequence[int]) -> str:
    if len(places) == len(names):
        return "all tied"
    return names[places[0]] + (f" (+{len(places) - 1} tied)" if len(places) > 1 else "")
