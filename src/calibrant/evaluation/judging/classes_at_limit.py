"""Draws of the class-wise error of a model whose true error is exactly at a limit."""

from __future__ import annotations

from calibrant.evaluation.judging.class_table import ClassTable
from calibrant.evaluation.resampling.at_limit import AtLimit, at_limit_of
from calibrant.evaluation.resampling.streams import Stream, stream_seed

MOST_GAPS = 64.0  # times the gaps found: clipping at zero can take from them


def draw_classes_at_limit(
    classes: ClassTable, limit: float, found: float, *, num_draws: int, confidence: float, seed: int
) -> AtLimit:
    """As :func:`~calibrant.evaluation.resampling.at_limit.draw_at_limit`, for all classes at once.

    The gaps found in the bins of all classes are shrunk until the class-wise error is the limit, rows sum to
    one again, and labels are drawn from them.
    """
    clustered = classes.clustered(num_draws, stream_seed(seed, Stream.NULL), confidence)
    if clustered is not None:
        drawn = clustered.draws(clustered.gaps_at(clustered.found, limit), num_draws)
        return at_limit_of(drawn, clustered.observed, confidence)
    truth = classes.at(limit, classes.as_observed, most=MOST_GAPS)
    drawn = classes.draw_errors(truth, num_draws, stream_seed(seed, Stream.NULL))
    return at_limit_of(drawn, found, confidence)
