"""Rank correlations over the runs of the curvature study, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from calibrant._math.shapes import Float, Int
from calibrant.experiments.studies.curvature.numbers import Pick, Run

if TYPE_CHECKING:
    from numpy import ndarray

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Rank:
    """A rank correlation over runs, with its bootstrap interval."""

    value: float
    low: float
    high: float
    n: int

    @property
    def sign(self) -> int:
        """1 or -1 where the interval lies on one side of zero, else 0."""
        return (self.low > 0) - (self.high < 0)


def correlation(runs: Sequence[Run], first: Pick, second: Pick, *, within: bool = False) -> Rank | None:
    """Rank correlation of two numbers over runs; ``within`` arms, only what sets runs of one arm apart.

    Returns:
        None where there are fewer than four runs with both numbers, or one of them is the same in all.
    """
    import numpy as np

    known = [
        (run["arm"], one, other)
        for run in runs
        if (one := first(run)) is not None and (other := second(run)) is not None
    ]
    if len(known) < 4:
        return None
    names = sorted({arm for arm, _, _ in known})
    arms = np.array([names.index(arm) for arm, _, _ in known])
    return rank_correlation(
        np.array([one for _, one, _ in known]),
        np.array([other for _, _, other in known]),
        arms,
        within=within,
    )


def rank_correlation(
    first: Float[ndarray, " n"],
    second: Float[ndarray, " n"],
    groups: Int[ndarray, " n"],
    *,
    within: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Rank | None:
    """Spearman's rank correlation and its percentile interval; runs are drawn anew within each group.

    The interval is widened where need be to hold the value itself.

    ``within``: ranks are taken within each group and centred there, so that what the groups differ in does
    not count.

    Example:
        >>> import numpy as np
        >>> found = rank_correlation(np.arange(8.0), np.arange(8.0) ** 2, np.zeros(8, dtype=int))
        >>> round(found.value, 12), round(found.low, 12), found.n
        (1.0, 1.0, 8)
    """
    import numpy as np

    pieces = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    ranked = pieces if within else [np.arange(len(groups))]
    value = float(_spearman(first, second, np.ones((1, len(first))), ranked)[0])
    if np.isnan(value):
        return None
    values = _spearman(first, second, _drawn(tuple(groups.tolist()), resamples, seed), ranked)
    known = values[~np.isnan(values)]
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(known, [tail, 100 - tail]) if len(known) else (-1.0, 1.0)
    # Runs drawn twice are tied, which draws separate groups further apart: the value may lie outside.
    return Rank(value=value, low=min(float(low), value), high=max(float(high), value), n=len(first))


@lru_cache(maxsize=16)
def _drawn(groups: tuple[int, ...], resamples: int, seed: int) -> Float[ndarray, "B n"]:
    """How often each resample holds each run; as many are drawn from each group as it has."""
    import numpy as np

    rng = np.random.default_rng(seed)
    counts = np.zeros((resamples, len(groups)))
    for group in sorted(set(groups)):
        piece = np.flatnonzero(np.array(groups) == group)
        drawn = piece[rng.integers(len(piece), size=(resamples, len(piece)))]
        np.add.at(counts, (np.arange(resamples)[:, None], drawn), 1)
    return counts


def _spearman(
    first: Float[ndarray, " n"],
    second: Float[ndarray, " n"],
    counts: Float[ndarray, "B n"],
    pieces: Sequence[Int[ndarray, " m"]],
) -> Float[ndarray, " B"]:
    """The correlation in each resample, which holds each run so many times, ranked within each piece.

    NaN where one of the numbers is the same throughout.
    """
    import numpy as np

    one = np.concatenate([_centred_ranks(first[piece], counts[:, piece]) for piece in pieces], axis=1)
    other = np.concatenate([_centred_ranks(second[piece], counts[:, piece]) for piece in pieces], axis=1)
    times = counts[:, np.concatenate(pieces)]
    length = np.sqrt((times * one**2).sum(axis=1) * (times * other**2).sum(axis=1))
    product = (times * one * other).sum(axis=1)
    return np.divide(product, length, out=np.full(len(length), np.nan), where=length > 1e-12)


def _centred_ranks(values: Float[ndarray, " m"], counts: Float[ndarray, "B m"]) -> Float[ndarray, "B m"]:
    """Ranks less their mean where each value stands so many times; equal values share theirs."""
    import numpy as np

    distinct, place = np.unique(values, return_inverse=True)
    alike = counts @ np.eye(len(distinct))[place]  # (B, m) -> (B, distinct)
    ranks = alike.cumsum(axis=1) - (alike - 1) / 2
    return ranks[:, place] - (counts.sum(axis=1, keepdims=True) + 1) / 2
