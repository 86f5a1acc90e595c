"""Independent streams of random numbers from one seed."""

from __future__ import annotations

from enum import IntEnum, unique

import numpy as np


@unique
class Stream(IntEnum):
    """Uses of random numbers; each has its own stream, so that none shifts another's."""

    SPLIT = 0
    BOOTSTRAP = 1
    NULL = 2
    FOLDS = 3
    JACKKNIFE = 4
    SAMPLE = 5
    GROUPS = 6
    SWAPS = 7


def stream_seed(seed: int, stream: Stream, part: int = 0) -> tuple[int, int, int]:
    """Seed of one stream, or of one part of it."""
    return (seed, int(stream), part)


def generator(seed: int, stream: Stream, part: int = 0) -> np.random.Generator:
    """Generator of one stream, or of one part of it."""
    return np.random.default_rng(stream_seed(seed, stream, part))
