"""Streams whose samples hang together within clusters: what is bet on, and what is counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant.evaluation.monitoring.questions import Watched
from calibrant.evaluation.resampling.clusters import cluster_codes
from calibrant.evaluation.resampling.streams import Stream, generator
from calibrant.predictions import Predictions

CLUSTERS_NOTE = (
    "Samples of a cluster may hang together: bets on them share one stake, a cluster counts in the window "
    "where it began, and what has changed since the baseline is asked of one sample of each, drawn at random."
)


def whole_clusters(watched: Watched) -> Watched:
    """The same with its clusters, each in the window where it began."""
    codes = _codes(watched.told)
    began = np.full(codes.max() + 1, len(watched.windows))
    np.minimum.at(began, codes, watched.index)
    return replace(watched, clusters=codes, index=began[codes])


def one_of_each(watched: Watched, seed: int) -> Watched:
    """The same with one sample of each cluster, in its own window; others tell nothing of their own."""
    every, known = _one_each(watched.stream, seed), _one_each(watched.told, seed)
    return replace(
        watched,
        stream=watched.stream.rows(torch.from_numpy(every)),
        told=watched.told.rows(torch.from_numpy(known)),
        windows=replace(watched.windows, index=watched.windows.index[every]),
        index=watched.index[known],
    )


def single_of_each(predictions: Predictions, seed: int) -> Predictions:
    """The predictions with one sample of each cluster, if they have clusters."""
    if predictions.clusters is None:
        return predictions
    return predictions.rows(torch.from_numpy(_one_each(predictions, seed)))


def _codes(predictions: Predictions) -> NDArray[np.int64]:
    return cluster_codes(predictions.clusters or ())


def _one_each(predictions: Predictions, seed: int) -> NDArray[np.int64]:
    """A row of each cluster, by chance."""
    order = generator(seed, Stream.GROUPS).permutation(predictions.num_samples)
    _, first = np.unique(_codes(predictions)[order], return_index=True)
    return np.sort(order[first])
