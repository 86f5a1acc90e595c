"""Streams of clustered samples: bets and counts."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant.evaluation.monitoring.questions import Watched
from calibrant.evaluation.resampling.clusters import cluster_codes
from calibrant.predictions import Predictions

CLUSTERS_NOTE = (
    "Samples of a cluster can depend on each other, so bets on them share one stake. A cluster counts with "
    "its samples in the window where it began. The tests against the baseline use one of these samples, "
    "picked by a hash of the cluster's name. The probability of a false alarm holds for checks at the end of "
    "a window, because clusters can still grow in a window that isn't over or waits for labels."
)


def whole_clusters(watched: Watched) -> Watched:
    """The stream with its clusters, each with the samples of the window where it began."""
    codes = _codes(watched.told)
    first = np.flatnonzero(_in_first_window(codes, watched.index))
    return replace(
        watched,
        told=watched.told.rows(torch.from_numpy(first)),
        index=watched.index[first],
        clusters=codes[first],
    )


def one_per_cluster(watched: Watched, seed: int) -> Watched:
    """The stream with one sample per cluster, from the window where it began."""
    every = _row_per_cluster(watched.stream, watched.windows.index, seed)
    known = _row_per_cluster(watched.told, watched.index, seed)
    return replace(
        watched,
        stream=watched.stream.rows(torch.from_numpy(every)),
        told=watched.told.rows(torch.from_numpy(known)),
        windows=replace(watched.windows, index=watched.windows.index[every]),
        index=watched.index[known],
    )


def sample_per_cluster(predictions: Predictions, seed: int) -> Predictions:
    if predictions.clusters is None:
        return predictions
    at_once = np.zeros(predictions.num_samples, dtype=np.int64)
    return predictions.rows(torch.from_numpy(_row_per_cluster(predictions, at_once, seed)))


def _codes(predictions: Predictions) -> NDArray[np.int64]:
    return cluster_codes(predictions.clusters or ())


def _in_first_window(codes: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the samples in the window where their cluster began."""
    began = np.full(codes.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(began, codes, index)
    return index == began[codes]


def _row_per_cluster(predictions: Predictions, index: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A row of each cluster from its first window, which a hash of its name picks.

    Nothing that comes in later windows, of this cluster or of others, changes the choice.
    """
    codes = _codes(predictions)
    rows = np.flatnonzero(_in_first_window(codes, index))
    rows = rows[np.argsort(codes[rows], kind="stable")]  # cluster by cluster, in their order
    sizes = np.bincount(codes[rows])
    picked = np.array([_hashed(f"{seed} {name}") for name in np.unique(np.asarray(predictions.clusters))])
    place = (picked % sizes.astype(np.uint64)).astype(np.int64)
    return np.sort(rows[np.cumsum(sizes) - sizes + place])


def _hashed(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little"))
